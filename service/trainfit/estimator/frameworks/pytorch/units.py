"""What data-parallel ranks gather and reduce together: a unit, and the buffers that this takes.
FSDP shares out the parameters of a layer, or of the root, as one unit.
"""

from typing import NamedTuple

from trainfit.resolve.pytorch.plan import PytorchPlan


class Unit(NamedTuple):
    """Bytes of one unit on one GPU, in the order of a step.

    `weights` are the unsharded parameters while the unit runs, which are `copied` out of what was
    gathered or are that themselves; `all_gather` is the buffer into which the unit that is next is
    gathered meanwhile, `all_gather_kept` what stays of it in forward until that unit is there.
    `reduce_scatter` is the input from which gradients are reduced, with what is whole until then,
    `reduce_scatter_kept` what stays of it while the unit before runs backward; `gradients` are left
    then, and `accumulated` is gone that earlier micro-batches had added up. A unit that `joins` its
    gradients adds them up as one, others one by one.
    """

    weights: int = 0
    all_gather: int = 0
    reduce_scatter: int = 0
    gradients: int = 0
    accumulated: int = 0
    all_gather_kept: int = 0
    reduce_scatter_kept: int = 0
    copied: bool = True
    joins: bool = False

    @property
    def while_gathered(self) -> int:
        """The unit when it is just whole."""
        return self.weights + self.all_gather * self.copied


NONE = Unit()


class Accumulated(NamedTuple):
    """Bytes of gradients that earlier micro-batches left: whole ones, or this rank's share."""

    whole: int = 0
    sharded: int = 0


def whole_embedding_gradient(plan: PytorchPlan) -> int:
    """Under tensor parallelism the embedding's gradient [V, h] is made whole and, where it is kept
    as it is, a rank's share stays a part of it.
    """
    states, tp = plan.step.states, plan.layout.tp
    if tp == 1 or not plan.layout.divides_embedding or states.reduced != states.gathered:
        return 0
    matrix = plan.vocabulary_rows * plan.model.hidden_size * states.gathered
    return matrix - matrix // tp
