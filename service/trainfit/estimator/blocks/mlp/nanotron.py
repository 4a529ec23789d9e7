"""Feed-forward network as nanotron's Llama runs it.

Symbols: estimator.legend. Source: nanotron's models/llama.py (MLP, GLUActivation).
"""

from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Mlp


def mlp(step: NanotronProgram, x: Tensor, block: Mlp) -> None:
    """gate_up_proj, silu(gate) * up, down_proj. silu and the product keep views of gate_up_proj's
    output, the product also what silu made.
    """
    n, (f,) = step.sizes.n, step.named(f=block.ffn)
    f //= step.sizes.t
    both = step.column_linear("gate_up_proj", x, 2 * f, "gate and up")
    activated, y = step.tensor("activated gate", n, f), step.tensor("product", n, f)
    gradients = step.tensor("gradients of gate and up", 2, n, f)
    step.operation(
        "split_silu_mul",
        makes=(y,),
        saves=(both, activated),
        backward=highest((step.gradient(y), gradients), (gradients, step.gradient(both))),
    )
    step.row_linear("down_proj", y, step.sizes.h)
