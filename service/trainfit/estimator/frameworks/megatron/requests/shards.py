"""How gradient buffers lie, and which pieces of its parameters a data-parallel rank steps.

A buffer has a chunk's parameters from the last to the first, each beginning at a multiple of 64
elements, in buckets whose ends are padded. Each bucket is cut into as many equal shares as there
are ranks, wherever that cuts parameters. Sources: megatron/core/optimizer/distrib_optimizer.py
(_compute_per_buffer_param_layout, _build_model_gbuf_param_range_map) and param_layout.py.
"""

from collections.abc import Iterator, Sequence
from math import lcm
from typing import NamedTuple

from trainfit.estimator.frameworks.megatron.requests.parameters import LocalParameter

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
    these are kept so.
    """

    buckets: tuple[Bucket, ...]
    ranks: int
    expert: bool
    narrow: bool

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
    multiple = lcm(ranks, BUCKET_END, BUCKET_END_FOR_BANDWIDTH if for_bandwidth else 1)
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


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
