"""Feed-forward network as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend. Source: megatron/core/transformer/mlp.py, fusions/fused_bias_swiglu.py
and fused_bias_gelu.py: the fused activation keeps fc1's output and makes fc2's input.
"""

from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Mlp

HONOURS = frozenset({"clamped"})


def mlp(step: TransformerEngine, x: Tensor, block: Mlp) -> None:
    """linear_fc1, activation, linear_fc2."""
    (f,) = step.named(f=block.ffn)
    with step.module("mlp"):
        names = ("linear_fc1", "activation")
        y = activated(step, x, f, names, gated=block.gated, clamped=block.clamped)
        step.row_linear("linear_fc2", y, block.output_size or step.sizes.h)


def activated(
    step: TransformerEngine,
    x: Tensor,
    f: int,
    names: tuple[str, str],
    *,
    gated: bool,
    clamped: bool,
) -> Tensor:
    """What fc2 reads [n, f / t]: fc1's output behind the activation."""
    f //= step.sizes.t
    projected = step.column_linear(names[0], x, 2 * f if gated else f, "fc1 output")
    y = step.tensor("activation output", step.sizes.n, f)
    return step.activation(names[1], projected, y, gated=gated, clamped=clamped)
