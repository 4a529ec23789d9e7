"""Mixers linear in the sequence: a first-order ledger of their wide tensors.

Symbols: estimator.legend; the widths are those of the block. Source: megatron/core/ssm
(mamba_mixer.py, gated_delta_net.py): projection, short convolution, scan, gated norm, projection
out. States at chunk borders of the scan are left out: they are a per cent of these.
"""

from trainfit.estimator.ledger import Kind, Operation, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.specs.blocks import Recurrence


def operations(block: Recurrence, sizes: Legend) -> tuple[Operation, ...]:
    """in_proj, convolution and scan, out_proj."""
    n, t, width = sizes.n, sizes.t, sizes.bytes
    projected = block.projected_width * n * width // t
    convolved = block.convolved_width * n * width // t
    inner = block.inner_width * n * width // t
    gathered = sizes.h * sizes.n_gathered * width
    return (
        Operation(
            "in_proj",
            (
                forward("gathered input [n, h]", gathered),
                backward("gathered input [n, h]", gathered),
                backward("input gradient [n, h]", sizes.h * n * width),
                backward("output gradient", projected),
            ),
            gemm=(block.projected_width // t, sizes.h),
            kind=Kind.PRODUCT,
        ),
        Operation(
            "scan",
            (
                saved("projected [n, projected / t]", projected),
                saved("convolved [n, convolved / t]", convolved),
                saved("scan output [n, inner / t]", inner),
                backward("gradient of the projection", projected),
                backward("gradient of the scan output", inner),
            ),
        ),
        Operation(
            "out_proj",
            (
                saved("gated output [n, inner / t]", inner),
                forward("output before its reduction [n, h]", sizes.h * n * width if t > 1 else 0),
                backward("gathered gradient [n, h]", gathered),
                backward("input gradient [n, inner / t]", inner),
            ),
            gemm=(sizes.h, block.inner_width // t),
            kind=Kind.PRODUCT,
        ),
    )
