"""A reference model: the policy's own base, or a copy that only ever runs forward."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.blocks.head.preference import BY
from trainfit.estimator.frameworks.pytorch.courses import Courses
from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.states import Numbers, shard, stored
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.placement import Content
from trainfit.resolve.pytorch.plan import Checkpointing, PytorchPlan


def weights_of_copy(numbers: Numbers, plan: PytorchPlan) -> int:
    """Bytes of the weights of a copy, shared out as the policy's are; adapters it has none of.
    Sources: accelerate's accelerator.py (prepare_model), TRL's models/utils.py
    (prepare_deepspeed, prepare_fsdp).
    """
    if not has_copy(plan):
        return 0
    shared = plan.layout.sharding == "optim_grads_params"
    part = shard(numbers, plan) if shared else numbers
    if plan.step.adapters is not None:
        part = part._replace(dense=0, expert=0, trained_matrices=0, trained_embedding=0)
    return stored(part, plan)


def has_copy(plan: PytorchPlan) -> bool:
    """Whether a second model lies beside the policy."""
    preference = plan.step.preference
    return preference is not None and preference.reference == "copy"


class ReferencePeak(NamedTuple):
    """A layer of the reference at its highest: bytes that it makes, those that the policy's loss
    holds meanwhile, and those of the layers before, where the model returns them.
    """

    placed: PlacedGroups
    made: int
    held: int
    returned: int


def running(policy: PytorchLedger, content: Content) -> Iterator[ReferencePeak]:
    """Layers of a reference, the last of each kind."""
    preference = policy.plan.step.preference
    if preference is None or not policy.plan.runs_reference:
        return
    (head,) = policy.head()
    (operation,) = [each for each in head if each.kind is OperationKind.REFERENCE]
    held = sum([row.bytes for row in operation.tensors])
    returns = BY[preference.by].all_hidden
    frozen = PytorchLedger(frozen_plan(policy.plan))
    courses = Courses(frozen)
    kinds = frozen.plan.model.pattern
    last = {kind: place for place, kind in enumerate(kinds)}
    for placed in frozen.placed(content._replace(kinds=kinds)):
        if placed.kind is not None and placed.layer == last[placed.kind]:
            made = courses.of(placed).forward.peak_bytes
            returned = returns * placed.layer * policy.numbers.act
            yield ReferencePeak(placed, made, held, returned)


def frozen_plan(plan: PytorchPlan) -> PytorchPlan:
    """The plan in which nothing is trained, and no adapter runs."""
    adapters = plan.step.adapters
    if adapters is not None:
        adapters = replace(adapters, targets=frozenset(), saved=frozenset(), virtual=None)
    model = plan.model.with_layers(
        range(plan.model.num_layers), lambda layer: layer.with_sublayers(trainable=False)
    )
    step = replace(
        plan.step,
        adapters=adapters,
        frozen=frozenset(("embed_tokens", "lm_head", "norm", "final_norm")),
        checkpointing=Checkpointing("none", 1),
        preference=None,
    )
    return replace(plan, model=model, step=step)
