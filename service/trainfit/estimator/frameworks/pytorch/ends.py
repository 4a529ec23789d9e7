"""What of a model of PyTorch modules stands before its layers, and behind them."""

from collections.abc import Iterator

from trainfit.estimator.blocks.embedding import pytorch as embeddings
from trainfit.estimator.blocks.head import pytorch as heads
from trainfit.estimator.blocks.norm import pytorch as norms
from trainfit.estimator.blocks.virtual_tokens.pytorch import virtual_tokens
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.tensors import Role
from trainfit.resolve.pytorch.plan import PytorchPlan
from trainfit.specs.architecture import Embedding
from trainfit.specs.blocks import Attention, LatentAttention, Norm


def embedding(
    sizes: PytorchLegend, way: PytorchWay, of: Embedding, rotated: int, masks: int
) -> tuple[Group, int]:
    """The embedding, and bytes that the forward of the whole model holds beside what is saved."""
    step = Modules(sizes, way)
    embeddings.lookup(step, of, rotated, masks)
    return (*virtual_tokens(sizes, way), *step.group()), step.cached


def norm_and_head(
    sizes: PytorchLegend, way: PytorchWay, final_norms: tuple[Norm, ...], *, in_forward: bool
) -> tuple[Group, Group]:
    """The norm before the head, and the head, with a loss `in_forward` of the model or outside."""
    step = Modules(sizes, way)
    shape, width = (sizes.n_shard, sizes.h), sizes.residual_bytes
    for each in final_norms:
        x = step.tensor("norm input", *shape, width=width, role=Role.BLOCK_INPUT)
        norms.norm(step, x, each, module="final_norm")
    x = step.tensor("norm output", *shape, width=width)
    step.end_group()
    heads.head(step, x, step.gathered(x), in_forward=in_forward)
    step.end_group()
    final_norm, head = step.groups()
    return final_norm, head


def masks(plan: PytorchPlan) -> int:
    """Masks that eager attention reads: of all earlier tokens, of those in a window."""
    if plan.step.attention_backend != "eager":
        return 0
    return len({block.window is None for block in _attention_blocks(plan)})


def rotated(plan: PytorchPlan) -> int:
    """Dimensions of a head that positions rotate; 0 where none are."""
    return max(map(_rotated, _attention_blocks(plan)), default=0)


def _attention_blocks(plan: PytorchPlan) -> Iterator[Attention | LatentAttention]:
    for block in plan.model.blocks:
        if isinstance(block, Attention | LatentAttention):
            yield block


def _rotated(block: Attention | LatentAttention) -> int:
    """Dimensions of a head that carry a rotary position."""
    if isinstance(block, LatentAttention):
        return block.qk_rope_head_dim
    return block.head_dim if block.rope else 0
