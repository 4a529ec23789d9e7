"""The largest micro-batch and the longest sequence with which a job still fits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainfit.decisions.patch import apply, patch
from trainfit.decisions.room import Room
from trainfit.estimator.results import Estimate
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.layout import sequence_multiple
from trainfit.resolve.registry import conventions_of
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

MICRO_BATCH_SIZE = "/training/micro_batch_size"
SEQ_LENGTH = "/training/seq_length"
LARGEST_MICRO_BATCH = 65_536
LONGEST_SEQUENCE = 16_777_216


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest values that fit, each with all else as it is; null where not asked for, and
    where none fits.
    """

    micro_batch_size: int | None
    seq_length: int | None


def largest(
    request: FitCheckRequest, estimate: Estimate, price: Callable[[Job], Estimate], room: Room
) -> Largest:
    """What the request asks for, of values that the batch and the layout divide by."""

    def search(path: str, values: Sequence[int], start: int) -> int | None:
        def fits(value: int) -> bool:
            try:
                estimate = price(apply(request, patch(request, {path: value})))
            except RefusedError:
                return False
            return room.verdict(estimate) == "fits"

        return last_that_holds(fits, values, bisect_right(values, start) - 1)

    training, wanted = request.training, request.limits
    micro_batch = length = None
    if wanted.micro_batch_size:
        sizes = micro_batch_sizes(training.global_batch_size, estimate.parallelism.dp)
        micro_batch = search(MICRO_BATCH_SIZE, sizes, training.micro_batch_size)
    if wanted.seq_length:
        multiple = sequence_multiple(request.parallelism, conventions_of(request))
        lengths = range(multiple, LONGEST_SEQUENCE + 1, multiple)
        length = search(SEQ_LENGTH, lengths, training.seq_length)
    return Largest(micro_batch, length)


def micro_batch_sizes(global_batch_size: int | None, dp: int) -> Sequence[int]:
    """Sizes that make up a rank's share of the global batch; any where there is none."""
    if global_batch_size is None:
        return range(1, LARGEST_MICRO_BATCH + 1)
    share = global_batch_size // dp
    return [size for size in range(1, min(share, LARGEST_MICRO_BATCH) + 1) if share % size == 0]


def last_that_holds(holds: Callable[[int], bool], values: Sequence[int], start: int) -> int | None:
    """The last of ascending values that holds, where all before it do: from index `start` by
    doubling steps up to one that does not, then by bisection.
    """
    held, failed = -1, len(values)
    probe, step = start, 1
    while failed - held > 1:
        if holds(values[probe]):
            held = probe
        else:
            failed = probe
        if failed == len(values):
            probe, step = min(held + step, failed - 1), 2 * step
        else:
            probe = (held + failed) // 2
    return values[held] if held >= 0 else None
