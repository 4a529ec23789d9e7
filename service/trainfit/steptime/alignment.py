"""Sizes that products run slowly with.

Tensor cores read 16 bytes at once: where a row of a matrix is no multiple of that, other kernels
run. A step of a model of 182 billion parameters took 28 % longer with heads of 108 features than
with as many of 144 (BLOOM's chronicles, 13,824 features in 128 and in 96 heads). Source: NVIDIA,
Matrix Multiplication Background User's Guide, requirements to use tensor cores.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.estimator.demands import AttentionDemand, Product
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.ledger import BlockOperation
from trainfit.estimator.memo import Memo
from trainfit.resolve.plan import Plan

HALF, FP8 = 8, 16
"""Elements of 16 bytes."""
SMALL = 256
"""Features with fewer of which a product takes next to none of a step: a router's."""


def misaligned(plan: Plan, memo: Memo) -> list[str]:
    """Products and attention of a rank whose sizes are no multiples of what tensor cores read, in
    words; each size once.
    """
    framework = framework_of(plan)
    ledger, fp8 = framework.shared_ledger(plan, memo), framework.execution(plan).narrow is not None
    sublayers = [each for kind in plan.model.layer_kinds for each in kind.sublayers]
    groups = [*ledger.embedding(), *ledger.head(), *ledger.mtp()]
    groups += [group for each in dict.fromkeys(sublayers) for group in ledger.sublayer(each)]
    found = (words for group in groups for each in group for words in _of(each, fp8=fp8))
    return list(dict.fromkeys(found))


def _of(operation: BlockOperation, *, fp8: bool) -> Iterator[str]:
    for demand in operation.demands:
        match demand:
            case Product(inputs=inputs, features=features, narrow=narrow):
                unit = FP8 if fp8 and narrow else HALF
                for size in (inputs, features):
                    if size >= SMALL and size % unit:
                        yield _words(operation, f"{size} features on each rank", unit)
            case AttentionDemand(widths=widths) if widths % (2 * HALF):
                yield _words(operation, f"heads of {widths / 2:g} features", HALF)
            case _:
                pass


def _words(operation: BlockOperation, what: str, unit: int) -> str:
    return f"{operation.name}: {what} are no multiple of {unit}, which is slow on tensor cores"
