"""Mixers linear in the sequence: a first-order ledger of their wide tensors.

Symbols: estimator.legend; the widths are those of the block. Source: megatron/core/ssm
(mamba_mixer.py, gated_delta_net.py): projection, short convolution, scan, gated norm, projection
out. States at chunk borders of the scan are left out: they are a per cent of these.
"""

from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Recurrence


def recurrence(step: Modules, x: Tensor, block: Recurrence) -> None:
    """in_proj, convolution and scan, out_proj."""
    sizes, n, t = step.sizes, step.sizes.n, step.sizes.t
    projected, convolved, inner = step.named(
        projected=block.projected_width,
        convolved=block.convolved_width,
        inner=block.inner_width,
    )
    gathered = step.tensor("gathered input", sizes.n_gathered, sizes.h)
    read = step.tensor("projected", n, projected // t)
    scanned = step.tensor("scan output", n, inner // t)
    gated = step.tensor("gated output", n, inner // t)
    step.operation(
        "in_proj",
        saves=step.shared(x) if sizes.adapters is None else (),
        borrows=(gathered,),
        backward=(gathered, step.tensor("input gradient", n, sizes.h), step.gradient(read)),
        weight=(projected // t, sizes.h),
        kind=OperationKind.PRODUCT,
        demands=(Product(n, sizes.h, projected // t),),
        adapted=sizes.adapts("in_proj"),
    )
    step.operation(
        "scan",
        saves=(read, step.tensor("convolved", n, convolved // t), scanned),
        backward=(step.gradient(read), step.gradient(scanned)),
    )
    reduced = (step.tensor("output before its reduction", n, sizes.h),) if t > 1 else ()
    gathered = step.tensor("gathered gradient", sizes.n_gathered, sizes.h)
    step.operation(
        "out_proj",
        saves=(gated,),
        borrows=reduced,
        backward=(gathered, step.gradient(gated)),
        weight=(sizes.h, inner // t),
        kind=OperationKind.PRODUCT,
        demands=(Product(n, inner // t, sizes.h), *step.added_up(sizes.h)),
        adapted=sizes.adapts("out_proj"),
    )
