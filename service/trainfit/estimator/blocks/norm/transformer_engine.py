"""Normalisations as TransformerEngine runs them. Symbols: estimator.legend.

Source: TransformerEngine's layernorm_linear.py and rmsnorm.py.
"""

from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Role, Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Norm


def fused_with_linear(step: TransformerEngine, x: Tensor, norm: Norm, *, feeds_mlp: bool) -> Tensor:
    """A norm in one module with the linear that reads it, and keeps its output as it reads it.

    Recompute `mlp` runs the one before a feed-forward network again.
    """
    y = step.tensor(
        "norm output",
        *(step.sizes.n_shard, width(step, norm)),
        width=step.sizes.linear_input_bytes,
        dropped_by=("mlp" if feeds_mlp else OFFLOADED + "qkv_linear",),
    )
    step.norm(norm.kind, x, output=y, again=y.dropped_by)
    return y


def before_blocks(step: TransformerEngine, x: Tensor, norm: Norm) -> Tensor:
    """A norm of its own: whoever reads its output keeps it, once for all of them. Recompute
    `layernorm` can drop it.
    """
    y = step.tensor("norm output", step.sizes.n_shard, width(step, norm), dropped_by=("layernorm",))
    step.norm(norm.kind, x, output=y, again=y.dropped_by)
    return y


def final(step: TransformerEngine, norm: Norm) -> None:
    """The norm before the head, which keeps its output in full precision."""
    shape = step.sizes.n_shard, width(step, norm)
    x = step.tensor("norm input", *shape, role=Role.BLOCK_INPUT)
    step.norm(norm.kind, x, output=step.tensor("norm output", *shape))


def after_blocks(step: TransformerEngine, norm: Norm) -> None:
    """A norm whose output is added to the residual: nobody keeps that."""
    x = step.tensor("norm input", step.sizes.n_shard, width(step, norm))
    step.norm(norm.kind, x, "post_norm")


def width(step: TransformerEngine, norm: Norm) -> int:
    """Features of what a norm reads: h, but for norms of something else."""
    return step.sizes.h if norm.width == step.sizes.h else norm.width
