"""Feed-forward network as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend. Source: megatron/core/transformer/mlp.py, fusions/fused_bias_swiglu.py
and fused_bias_gelu.py: the fused activation keeps fc1's output and makes fc2's input.
"""

from trainfit.estimator.ledger import Operation, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.specs.blocks import Mlp


def operations(block: Mlp, sizes: Legend) -> tuple[Operation, ...]:
    """linear_fc1, activation, linear_fc2."""
    return feed_forward(
        ffn=block.ffn // sizes.t,
        gated=block.gated,
        h_in=block.input_size or sizes.h,
        h_out=block.output_size or sizes.h,
        sizes=sizes,
        scopes=("mlp",),
    )


def feed_forward(
    ffn: int, gated: bool, h_in: int, h_out: int, sizes: Legend, scopes: tuple[str, ...]
) -> tuple[Operation, ...]:
    """A network of `ffn` = f / t features on this rank over all n tokens, within `scopes`."""
    n, width = sizes.n, sizes.bytes
    inputs = 2 if gated else 1
    product = ffn * n * width
    gathered = h_in * sizes.n_gathered * width
    return (
        Operation(
            "linear_fc1",
            (
                forward("gathered input [n, h]", gathered),
                backward("gathered input [n, h]", gathered),
                backward("input gradient [n, h]", h_in * n * width),
                backward("output gradient [n, 2f / t]", inputs * product),
            ),
            gemm=(inputs * ffn, h_in),
            scopes=scopes,
        ),
        Operation(
            "activation",
            (
                saved("fc1 output [n, 2f / t]", inputs * product),
                backward("gradient of fc1 output [n, 2f / t]", inputs * product),
                backward("gradient of its own output [n, f / t]", product),
            ),
            scopes=scopes,
        ),
        Operation(
            "linear_fc2",
            (
                saved("activation output [n, f / t]", sizes.kept(product)),
                forward("output before its reduction [n, h]", h_out * n * width),
                backward("gathered gradient [n, h]", h_out * sizes.n_gathered * width),
                backward("input gradient [n, f / t]", product),
            ),
            gemm=(h_out, ffn),
            scopes=scopes,
        ),
    )
