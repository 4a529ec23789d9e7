"""How gradient buffers lie, and which pieces of its parameters a data-parallel rank steps.

A buffer has a chunk's parameters from the last to the first, each beginning at a multiple of 64
elements, in buckets whose ends are padded. Each bucket is cut into as many equal shares as there
are ranks, wherever that cuts parameters; Muon's matrices are laid so that it cuts none. Sources:
megatron/core/optimizer/distrib_optimizer.py and layer_wise_optimizer.py
(_compute_per_buffer_param_layout), distrib_optimizer.py (_build_model_gbuf_param_range_map) and
param_layout.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import lcm
from operator import attrgetter
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.requests.parameters import LocalParameter
from trainfit.estimator.frameworks.megatron.states import (
    BUCKET_PARAMETERS,
    BUCKET_PARAMETERS_PER_RANK,
    StateSharding,
)

ALIGNED = 64
"""Elements; likewise below."""
BUCKET_END = 128
BUCKET_END_FOR_BANDWIDTH = 2**16


class Bucket(NamedTuple):
    """Parameters with where they begin in their buffer, from `start` to `end`."""

    start: int
    end: int
    placed: tuple[tuple[int, LocalParameter], ...]


class Buffer(NamedTuple):
    """The parameters of a chunk that the same ranks reduce; apart those that are `narrow`, where
    these are kept so, and those that ranks have `whole`.
    """

    buckets: tuple[Bucket, ...]
    ranks: int
    expert: bool
    narrow: bool
    whole: bool = False

    @property
    def numel(self) -> int:
        return self.buckets[-1].end if self.buckets else 0

    def pieces(self, rank: int) -> Iterator[LocalParameter]:
        """What a rank steps of each parameter that it has a part of, in the buffer's order."""
        for bucket in self.buckets:
            share = (bucket.end - bucket.start) // self.ranks
            first = bucket.start + rank * share
            for start, parameter in bucket.placed:
                numel = min(first + share, start + parameter.numel) - max(first, start)
                if numel > 0:
                    yield parameter._replace(numel=numel)


def buffer(
    parameters: Sequence[LocalParameter],
    ranks: int,
    bucket_size: int | None,
    *,
    for_bandwidth: bool,
    narrow: bool,
) -> Buffer:
    """The buffer of parameters in the order of their modules. Without a `bucket_size` there is
    one bucket, but for parameters that stages share.
    """
    multiple = _multiple(ranks, for_bandwidth=for_bandwidth)
    buckets: list[Bucket] = []
    placed: list[tuple[int, LocalParameter]] = []
    start = at = 0

    def close(end: int) -> int:
        padded = _up(end, multiple)
        buckets.append(Bucket(start, padded, tuple(placed)))
        placed.clear()
        return padded

    for parameter in reversed(parameters):
        at = _up(at, ALIGNED)
        if parameter.shared and placed:
            start = at = close(at)
        placed.append((at, parameter))
        at += parameter.numel
        if parameter.shared or (bucket_size is not None and at - start >= bucket_size):
            start = at = close(at)
    if placed:
        close(at)
    return Buffer(tuple(buckets), ranks, parameters[0].expert, narrow)


FULL = 0.9
"""Of a bucket whose shares are as large as one matrix, the part that is no padding: PADDING_FLOOR.
"""


def buffer_of_wholes(
    parameters: Sequence[LocalParameter],
    ranks: int,
    bucket_size: int | None,
    *,
    for_bandwidth: bool,
    narrow: bool,
) -> Buffer:
    """The same where each parameter is in the share of one rank: of a bucket the largest comes
    first, each to the rank that has least. All shares are as large as the largest.
    """
    multiple = _multiple(ranks, for_bandwidth=for_bandwidth)
    buckets: list[Bucket] = []
    waiting: list[LocalParameter] = []
    numel = largest = 0
    for index, parameter in enumerate(reversed(parameters), 1):
        waiting.append(parameter)
        numel, largest = numel + parameter.numel, max(largest, parameter.numel)
        full = bucket_size is not None and numel >= max(bucket_size, int(ranks * largest * FULL))
        if full or index == len(parameters):
            start = buckets[-1].end if buckets else 0
            buckets.append(_of_wholes(waiting, start, ranks, lcm(ALIGNED, multiple // ranks)))
            waiting.clear()
            numel = largest = 0
    return Buffer(tuple(buckets), ranks, parameters[0].expert, narrow, whole=True)


def padding_of_wholes(
    parameters: Iterable[LocalParameter], sharding: StateSharding, *, in_buckets: bool
) -> int:
    """Bytes by which the buffers of a chunk's matrices are larger than these. Weights that linears
    read in fp8 alone have buffers of their own.
    """
    states, framework = sharding.each, sharding.framework
    apart = states.narrow is not None and states.narrow.alone
    size = max(BUCKET_PARAMETERS, BUCKET_PARAMETERS_PER_RANK * sharding.shards)
    kinds: dict[tuple[bool, bool], list[LocalParameter]] = {}
    for each in parameters:
        if each.matrices and not each.frozen:
            kinds.setdefault((each.expert, each.narrow and apart), []).append(each)
    elements = 0
    for (expert, is_narrow), own in kinds.items():
        laid = buffer_of_wholes(
            own,
            sharding.expert_shards if expert else sharding.shards,
            size if in_buckets else None,
            for_bandwidth=framework.pad_buckets_for_high_nccl_busbw,
            narrow=is_narrow,
        )
        elements += laid.numel - sum([each.numel for each in own])
    return elements * (states.weights + states.gradients)


def _of_wholes(
    parameters: Sequence[LocalParameter], start: int, ranks: int, multiple: int
) -> Bucket:
    """A bucket of such parameters, whose shares are multiples of so many elements."""
    least = [(0, rank) for rank in range(ranks)]
    placed: list[tuple[int, int, LocalParameter]] = []
    for parameter in sorted(parameters, key=attrgetter("numel"), reverse=True):
        end, rank = heappop(least)
        placed.append((rank, _up(end, ALIGNED), parameter))
        heappush(least, (_up(end, ALIGNED) + parameter.numel, rank))
    share = _up(max(least)[0], multiple)
    return Bucket(
        start,
        start + ranks * share,
        tuple([(start + rank * share + at, parameter) for rank, at, parameter in placed]),
    )


def _multiple(ranks: int, *, for_bandwidth: bool) -> int:
    """Of which elements a bucket's end is one."""
    return lcm(ranks, BUCKET_END, BUCKET_END_FOR_BANDWIDTH if for_bandwidth else 1)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
