"""Mixers linear in the sequence: a first-order ledger of their wide tensors.

Symbols: estimator.legend; the widths are those of the block. Source: megatron/core/ssm
(mamba_mixer.py, gated_delta_net.py): projection, short convolution, scan, gated norm, projection
out; of Mamba 2 mamba_ssm/ops/triton/ssd_combined.py (MambaSplitConv1dScanCombinedFn). States at
chunk borders of the scan are left out: they are a per cent of these.
"""

from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Recurrence

CLEARED_CACHE = 256 * 1024 * 1024
"""Bytes that Triton's autotuner writes before it measures a kernel, so that the L2 cache has
nothing of what that reads: triton/testing.py (do_bench). A scan is tuned at its first backward,
beside what all layers before it keep; at its first forward there is little beside it.
"""


def recurrence(step: TransformerEngine, x: Tensor, block: Recurrence) -> None:
    """in_proj, convolution and scan, out_proj. Where one kernel convolves and scans, what it gives
    is gated, and its norm keeps that.
    """
    n, t = step.sizes.n, step.sizes.t
    projected, convolved, inner = step.named(
        projected=block.projected_width,
        convolved=block.convolved_width,
        inner=block.inner_width,
    )
    read = step.column_linear("in_proj", x, projected // t, "projected")
    scanned = step.tensor("scan output", n, inner // t)
    passed = step.tensor("convolved", n, convolved // t)
    kept, again = ((), (passed,)) if block.convolves_in_scan else ((passed,), ())
    tuned = step.tensor("cleared cache", CLEARED_CACHE, width=BYTE)
    step.operation(
        "scan",
        saves=(read, *kept, scanned),
        backward=(
            *again,
            step.gradient(read),
            step.gradient(scanned),
            *(tuned,) * step.run.step.tunes_kernels,
        ),
    )
    gated = step.tensor("gated output", n, inner // t)
    if block.convolves_in_scan and block.norms:
        normalised = step.tensor("norm output", n, inner // t)
        step.norm("rmsnorm", gated, output=normalised)
        gated = normalised
    step.row_linear("out_proj", gated, step.sizes.h)
