"""What an allocator holds at a moment, as a memory snapshot of PyTorch tells it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from trainfit.estimator.allocator.blocks import Block

BlockState = Literal["active_allocated", "active_awaiting_free", "inactive"]
ALLOCATED: BlockState = "active_allocated"
AWAITING: BlockState = "active_awaiting_free"
INACTIVE: BlockState = "inactive"


@dataclass(frozen=True, slots=True)
class SegmentBlock:
    """A block: what the program holds, what other streams still use, or what is free.

    `requested_bytes` were asked for when it was last handed out, `tensor` is what holds it.
    """

    address: int
    size: int
    requested_bytes: int
    state: BlockState
    tensor: Hashable = None


@dataclass(frozen=True, slots=True)
class SegmentSnapshot:
    """Memory of the GPU in one piece. `owner` is its private pool, None the default one."""

    address: int
    size: int
    small: bool
    stream: Hashable
    owner: Hashable
    expandable: bool
    blocks: tuple[SegmentBlock, ...]


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Why more is reserved than was asked for; with `requested_bytes` it adds up to what is.

    `rounding_bytes` are in blocks beyond their requests. `split_bytes` are free in segments that
    are used in part, which only requests that fit can use (inactive_split_bytes), and
    `unused_bytes` in segments that nobody uses, which are given back before the GPU runs out.
    """

    requested_bytes: int
    rounding_bytes: int
    split_bytes: int
    unused_bytes: int


def fragmentation(segments: Iterable[SegmentSnapshot]) -> Fragmentation:
    """What the reserved bytes of segments are made of."""
    requested = rounding = split = unused = 0
    for segment in segments:
        used = [block for block in segment.blocks if block.state != INACTIVE]
        requested += sum(block.requested_bytes for block in used)
        rounding += sum(block.size - block.requested_bytes for block in used)
        free = segment.size - sum(block.size for block in used)
        if used:
            split += free
        else:
            unused += free
    return Fragmentation(requested, rounding, split, unused)


def snapshot(
    heads: Iterable[Block], tensors: Mapping[Block, Hashable]
) -> tuple[SegmentSnapshot, ...]:
    """The segments that begin with these blocks. Of an expandable one, every range with memory
    behind it is a segment.
    """
    return tuple(_segment(run, tensors) for head in heads for run in _mapped_runs(head))


def _segment(run: list[Block], tensors: Mapping[Block, Hashable]) -> SegmentSnapshot:
    pool = run[0].pool
    return SegmentSnapshot(
        address=run[0].address,
        size=sum(block.size for block in run),
        small=pool.small,
        stream=pool.stream,
        owner=pool.owner,
        expandable=run[0].segment is not None,
        blocks=tuple(
            SegmentBlock(
                address=block.address,
                size=block.size,
                requested_bytes=block.requested,
                state=_state(block, tensors),
                tensor=tensors.get(block),
            )
            for block in run
        ),
    )


def _mapped_runs(head: Block) -> Iterator[list[Block]]:
    """The blocks of a segment, in runs that have memory behind them."""
    run: list[Block] = []
    block: Block | None = head
    while block is not None:
        if block.mapped:
            run.append(block)
        elif run:
            yield run
            run = []
        block = block.next
    if run:
        yield run


def _state(block: Block, tensors: Mapping[Block, Hashable]) -> BlockState:
    if block.free:
        return INACTIVE
    return ALLOCATED if block in tensors else AWAITING
