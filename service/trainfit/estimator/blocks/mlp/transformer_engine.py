"""Feed-forward network as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend. Source: megatron/core/transformer/mlp.py, fusions/fused_bias_swiglu.py
and fused_bias_gelu.py: the fused activation keeps fc1's output and makes fc2's input.
"""

from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Mlp


def mlp(step: TransformerEngine, x: Tensor, block: Mlp) -> None:
    """linear_fc1, activation, linear_fc2."""
    (f,) = step.named(f=block.ffn)
    with step.module("mlp"):
        y = activated(step, x, f, ("linear_fc1", "activation"), gated=block.gated)
        step.row_linear("linear_fc2", y, block.output_size or step.sizes.h)


def activated(
    step: TransformerEngine, x: Tensor, f: int, names: tuple[str, str], *, gated: bool
) -> Tensor:
    """What fc2 reads [n, f / t]: fc1's output behind the activation."""
    f //= step.sizes.t
    projected = step.column_linear(names[0], x, 2 * f if gated else f, "fc1 output")
    return step.activation(names[1], projected, step.tensor("activation output", step.sizes.n, f))
