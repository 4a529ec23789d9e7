"""Feed-forward network as modules of PyTorch. Symbols: estimator.legend.

An activation function that is one kernel keeps its input; those that transformers writes out keep
more. A fused product of activation and gate keeps its two inputs, and the product behind keeps its
output: torch.compile makes nothing again that a product in backward has to read from memory.
Sources: transformers' activations.py, liger_kernel/ops/swiglu.py,
torch/_functorch/partitioners.py (is_materialized_backwards).
"""

from functools import partial

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.ledger import Operation, backward, forward, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.specs.blocks import Mlp

BESIDE_INPUT = {
    "gelu_new": 3,
    "gelu_fast": 5,
    "quick_gelu": 1,
    "relu2": 0,
    "xielu": 4,
    "clamped_swiglu": 3,
}
"""Tensors that a written-out activation keeps besides its input and its output: half of the input,
tanh and 1 + tanh of gelu_new; the sigmoid of quick_gelu; relu2's relu stands in for its input; the
clamped gate, its sigmoid and their product of gpt-oss's experts."""


def operations(block: Mlp, sizes: PytorchLegend, activation: str) -> tuple[Operation, ...]:
    """Products into the network, activation, product out of it."""
    h_in, h_out = block.input_size or sizes.h, block.output_size or sizes.h
    ffn = block.ffn // sizes.t
    into = partial(linear, rows=sizes.n, sizes=sizes, bias=block.bias)
    gate = [into("gate_proj", inputs=h_in, outputs=ffn, reads="residual", joins=True)]
    return (
        *(gate if block.gated else []),
        into("up_proj", inputs=h_in, outputs=ffn, reads="residual", joins=block.gated),
        activate(
            ffn * sizes.n * sizes.product_bytes("up_proj"), sizes, activation, gated=block.gated
        ),
        into("down_proj", inputs=ffn, outputs=h_out, reads="own", ends=True),
    )


def activate(size: int, sizes: PytorchLegend, activation: str, *, gated: bool) -> Operation:
    """Tensors of `size` bytes each: the activation's input, the gate's two factors. The product
    behind keeps the output.
    """
    written_out = BESIDE_INPUT.get(activation, 0) > 0 and not sizes.fused
    made = 2 + int(gated) + int(written_out)
    gradients = backward("gradients of output and inputs", made * size)
    if sizes.fused:
        inputs = saved("activation inputs [n, 2f / t]", (1 + int(gated)) * size)
        return Operation("activation", (inputs, gradients))
    own = (1 + BESIDE_INPUT.get(activation, 0)) * size
    if activation == "relu" and not gated:
        own = 0
    return Operation(
        "activation",
        (
            saved("activation input [n, f / t]", own),
            saved("factors of the gate [n, f / t]", 2 * size if gated else 0),
            forward("activation's intermediate results", size),
            gradients,
        ),
    )
