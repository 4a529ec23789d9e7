"""Expandable segments: one range of addresses a pool, which grows by pages where memory is needed.

Source: `find_expandable_block`, `map_block`, `try_allocate_expandable_block` and `unmap_block` of
c10/cuda/CUDACachingAllocator.cpp.
"""

from bisect import insort
from operator import attrgetter

from trainfit.estimator.allocator.blocks import Block, ExpandableSegment, Pool
from trainfit.estimator.allocator.device import Device

_by_address = attrgetter("address")


def grow(pool: Pool, size: int, device: Device) -> Block | None:
    """A free block of at least so many bytes, out of its pool, made by mapping pages behind the
    lowest addresses with room for it; None where the GPU has no room for the pages.
    """
    block = _room(pool, size, device)
    if not block.mapped:
        mapped = _map(block, min(block.size, size), device)
        if mapped is None:
            return None
        block = mapped
    while block.size < size:
        # A free block with addresses behind it that have no memory yet.
        following = block.next
        assert following is not None
        mapped = _map(following, min(size - block.size, following.size), device)
        if mapped is None:
            return None
        block = mapped
    pool.remove(block)
    return block


def unmap(block: Block, device: Device) -> bool:
    """Give back the pages that lie wholly within a free block. Where nothing of the segment is
    mapped any more its addresses are given back as well, and True is returned.
    """
    segment, pool = block.segment, block.pool
    assert segment is not None
    page = segment.page_bytes
    start = segment.address + -(-(block.address - segment.address) // page) * page
    end = block.address + block.size
    end -= (end - segment.address) % page
    if start >= end:
        return False
    pool.remove(block)
    if start > block.address:
        before, block = block, block.split(start - block.address)
        pool.number(before)
        pool.add(before)
    if end < block.address + block.size:
        rest = block.split(end - block.address)
        pool.number(rest)
        pool.add(rest)
    block.mapped = False
    device.unmap(segment.address, start, end - start)
    following, before_it = block.next, block.previous
    if following is not None and not following.mapped:
        pool.unmapped.remove(following)
        block.absorb_next()
    if before_it is not None and not before_it.mapped:
        pool.unmapped.remove(before_it)
        before_it.absorb_next()
        block = before_it
    if block.whole:
        device.addresses.give_back(segment.address, segment.size)
        return True
    insort(pool.unmapped, block, key=_by_address)
    return False


def _room(pool: Pool, size: int, device: Device) -> Block:
    """The block at the lowest address from which free and unmapped blocks together have room; a
    segment of its own where there is none.
    """
    for block in pool.unmapped:
        before = block.previous
        start = before if before is not None and before.free else block
        if _follow(start, size):
            return start
    page = pool.page_bytes
    length = -(-device.reservable_bytes // page) * page
    segment = ExpandableSegment(device.reserve(length), length, page)
    block = pool.segment(segment.address, length, device.made, segment)
    block.mapped = False
    insort(pool.unmapped, block, key=_by_address)
    return block


def _follow(block: Block | None, size: int) -> bool:
    """Whether so many bytes from a block on are used by nobody."""
    while size > 0 and block is not None and (block.free or not block.mapped):
        size -= block.size
        block = block.next
    return size <= 0


def _map(block: Block, size: int, device: Device) -> Block | None:
    """Put pages behind the first so many bytes of an unmapped block and merge what is free beside
    it. The pages are asked for one by one, and all given back where one is refused.
    """
    segment, pool = block.segment, block.pool
    assert segment is not None
    mapped = -(-size // segment.page_bytes) * segment.page_bytes
    if not device.map(segment.address, block.address, mapped):
        return None
    pool.unmapped.remove(block)
    if mapped < block.size:
        rest = block.split(mapped)
        pool.number(rest)
        insort(pool.unmapped, rest, key=_by_address)
    block.mapped = True
    return pool.add_merged(block)
