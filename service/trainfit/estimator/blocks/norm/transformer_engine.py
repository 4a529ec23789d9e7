"""Normalisations as TransformerEngine runs them. Symbols: estimator.legend; w the width.

Source: TransformerEngine's layernorm_linear.py and rmsnorm.py.
"""

from trainfit.estimator.ledger import Operation, Tensor, backward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED
from trainfit.specs.blocks import Norm

STATISTIC_BYTES = 4
"""Norms keep their fp32 statistics: rstd, and the mean for LayerNorm."""


def statistics_bytes(norm: Norm) -> int:
    """Bytes of the statistics of one token."""
    return STATISTIC_BYTES * (2 if norm.kind == "layernorm" else 1)


def fused_with_linear(norm: Norm, sizes: Legend, place: str) -> Operation:
    """A norm in one module with the linear that reads it, and keeps its output.

    Source: TransformerEngine's layernorm_linear.py. `place` names the norm where it is offloaded;
    recompute `mlp` runs the one before a feed-forward network again.
    """
    output = sizes.kept(norm.width * sizes.n_shard * sizes.bytes)
    linear = OFFLOADED + "qkv_linear" if place == "attn_norm" else "mlp"
    return Operation(
        "norm", (*_input(norm, sizes, place), saved("norm output [n', h]", output, linear))
    )


def before_blocks(norm: Norm, sizes: Legend, place: str) -> Operation:
    """A norm of its own: whoever reads its output keeps it, once for all of them. Recompute
    `layernorm` can drop it.
    """
    output = norm.width * sizes.n_shard * sizes.bytes
    return Operation(
        "norm", (*_input(norm, sizes, place), saved("norm output [n', h]", output, "layernorm"))
    )


def final(norm: Norm, sizes: Legend) -> Operation:
    """The norm before the head, which keeps its output in full precision."""
    output = norm.width * sizes.n_shard * sizes.bytes
    return Operation("norm", (*_input(norm, sizes), saved("norm output [n', h]", output)))


def after_blocks(norm: Norm, sizes: Legend) -> Operation:
    """A norm whose output is added to the residual: nobody keeps that."""
    return Operation("post_norm", _input(norm, sizes))


def _input(norm: Norm, sizes: Legend, place: str = "") -> tuple[Tensor, ...]:
    size = norm.width * sizes.n_shard * sizes.bytes
    return (
        saved("norm input [n', h]", size, OFFLOADED + place),
        saved("norm statistics [n']", statistics_bytes(norm) * sizes.n_shard),
        backward("norm input gradient [n', h]", size),
    )
