"""How frameworks have PyTorch run a model's modules, where they do it differently."""

from types import ModuleType
from typing import NamedTuple

from trainfit.estimator.blocks.moe import pytorch as transformers_moe
from trainfit.estimator.blocks.moe import torchtitan as torchtitan_moe
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.framework import Torchtitan, Transformers


class PytorchConventions(NamedTuple):
    """One framework's."""

    experts: ModuleType
    """Where the operations of its experts are written down."""
    experts_are_a_unit: bool
    """FSDP gathers the experts that it divides over ranks by themselves."""
    experts_are_divided_by_rows: bool
    """Of more ranks than experts, each has rows of every one; else a rank has one at least."""
    experts_are_prefetched: bool
    """With expert parallelism the next unit is gathered while one runs forward."""
    experts_tell_order: bool
    """The programs of its experts tell in which order they ask for what they need."""
    loss_in_forward: bool
    """The loss is computed within the root's forward, so that the last layer is being gathered when
    its backward begins.
    """


TORCHTITAN = PytorchConventions(
    experts=torchtitan_moe,
    experts_are_a_unit=False,
    experts_are_divided_by_rows=True,
    experts_are_prefetched=True,
    experts_tell_order=False,
    loss_in_forward=False,
)
"""Source: torchtitan's models/common/moe.py, models/llama4/parallelize.py (apply_fsdp)."""
TRANSFORMERS = PytorchConventions(
    experts=transformers_moe,
    experts_are_a_unit=True,
    experts_are_divided_by_rows=False,
    experts_are_prefetched=False,
    experts_tell_order=True,
    loss_in_forward=True,
)
"""Source: transformers' distributed/fsdp.py and modeling files."""


def conventions_of(plan: PytorchPlan) -> PytorchConventions:
    """The conventions of the framework that runs a plan."""
    match plan.framework:
        case Torchtitan():
            return TORCHTITAN
        case Transformers():
            return TRANSFORMERS
