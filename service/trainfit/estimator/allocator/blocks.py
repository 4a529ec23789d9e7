"""Blocks, the pieces of segments, and pools, which hold those that are free."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from itertools import count

ADDRESS_BITS = 64
AGE_BITS = 32
SIZE_SHIFT = AGE_BITS + ADDRESS_BITS


class ExpandableSegment:
    """A range of addresses that memory is put behind page by page."""

    __slots__ = ("address", "page_bytes", "size")

    def __init__(self, address: int, size: int, page_bytes: int) -> None:
        self.address = address
        self.size = size
        self.page_bytes = page_bytes


class Block:
    """A piece of a segment, between `previous` and `next` of the same segment.

    Free while it lies in its pool, at `key` in its order, which is 0 while it is in use. Not
    `mapped` where it is but addresses of an expandable segment, without memory behind them.
    `requested` is what was asked for when it was last handed out, `age` the number of its segment
    in the order in which segments were made, 0 where that decides nothing.
    """

    __slots__ = (
        "address",
        "age",
        "key",
        "mapped",
        "next",
        "pool",
        "previous",
        "requested",
        "segment",
        "size",
    )

    def __init__(
        self, address: int, size: int, pool: "Pool", segment: ExpandableSegment | None, age: int
    ) -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.segment = segment
        self.age = age
        self.key = 0
        self.requested = 0
        self.mapped = True
        self.previous: Block | None = None
        self.next: Block | None = None

    @property
    def free(self) -> bool:
        """Whether nobody uses it."""
        return self.key > 0

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.previous is None and self.next is None

    @property
    def expandable_size(self) -> int:
        """Its bytes, and those of the addresses behind it that have no memory yet."""
        following = self.next
        return self.size + (following.size if following is not None and not following.mapped else 0)

    def split(self, size: int) -> "Block":
        """Cut it to a size and return the rest, which comes next."""
        rest = Block(self.address + size, self.size - size, self.pool, self.segment, self.age)
        rest.mapped = self.mapped
        self.size = size
        rest.previous = self
        following = rest.next = self.next
        if following is not None:
            following.previous = rest
        self.next = rest
        return rest

    def absorb_next(self) -> None:
        """Merge with the block that comes next."""
        following = self.next
        assert following is not None
        self.size += following.size
        after = self.next = following.next
        if after is not None:
            after.previous = self


class Pool:
    """What is free for requests of one size class, stream and owner: the default or a private pool.

    Best fit is the smallest block that is large enough, of these the one at the lowest address
    (BlockComparatorSize), so the free blocks are kept in that order; with `oldest_first` the age of
    the segment comes before the address.
    """

    __slots__ = (
        "_free",
        "_keys",
        "oldest_first",
        "owner",
        "page_bytes",
        "small",
        "stream",
        "unmapped",
    )

    def __init__(
        self,
        *,
        small: bool,
        stream: Hashable,
        owner: Hashable,
        page_bytes: int,
        oldest_first: bool,
    ) -> None:
        self.small = small
        self.stream = stream
        self.owner = owner
        self.page_bytes = page_bytes
        self.oldest_first = oldest_first
        self._keys: list[int] = []
        self._free: list[Block] = []
        self.unmapped: list[Block] = []
        """Addresses of expandable segments without memory, by address."""

    def segment(
        self, address: int, size: int, number: int, expandable: ExpandableSegment | None = None
    ) -> Block:
        """A block that is all of a new segment, the so-manieth of the GPU."""
        return Block(address, size, self, expandable, number if self.oldest_first else 0)

    def split(self, block: Block, size: int) -> None:
        """Cut a block to a size and keep the rest as free (alloc_found_block)."""
        # In line, as every second request comes by: what `Block.split` and `add` do.
        rest = Block(block.address + size, block.size - size, self, block.segment, block.age)
        block.size = size
        rest.previous = block
        following = rest.next = block.next
        if following is not None:
            following.previous = rest
        block.next = rest
        key = rest.key = (rest.size << AGE_BITS | rest.age) << ADDRESS_BITS | rest.address
        keys = self._keys
        at = bisect_left(keys, key)
        keys.insert(at, key)
        self._free.insert(at, rest)

    def number(self, block: Block) -> None:
        """A piece of a block is a new block: of no matter where segments are numbered."""

    def __iter__(self) -> Iterator[Block]:
        return iter(tuple(self._free))

    def add(self, block: Block) -> None:
        """Keep a block as free."""
        key = block.key = (block.size << AGE_BITS | block.age) << ADDRESS_BITS | block.address
        at = bisect_left(self._keys, key)
        self._keys.insert(at, key)
        self._free.insert(at, block)

    def remove(self, block: Block) -> None:
        """Take out a block that is free."""
        at = bisect_left(self._keys, block.key)
        block.key = 0
        del self._keys[at], self._free[at]

    def add_merged(self, block: Block) -> Block:
        """Keep a block as free, merged with what is free beside it (try_merge_blocks)."""
        # In line, as every free comes by: what `remove`, `absorb_next` and `add` do.
        keys, free = self._keys, self._free
        following, before = block.next, block.previous
        if following is not None and following.key:
            at = bisect_left(keys, following.key)
            del keys[at], free[at]
            block.size += following.size
            after = block.next = following.next
            if after is not None:
                after.previous = block
        if before is not None and before.key:
            at = bisect_left(keys, before.key)
            del keys[at], free[at]
            before.size += block.size
            after = before.next = block.next
            if after is not None:
                after.previous = before
            block = before
        key = block.key = (block.size << AGE_BITS | block.age) << ADDRESS_BITS | block.address
        at = bisect_left(keys, key)
        keys.insert(at, key)
        free.insert(at, block)
        return block

    def take(self, size: int) -> Block | None:
        """Take out the best fit, None where no block is large enough."""
        keys = self._keys
        at = bisect_left(keys, size << SIZE_SHIFT)
        if at == len(keys):
            return None
        del keys[at]
        block = self._free.pop(at)
        block.key = 0
        return block

    def take_expandable(self, size: int) -> Block | None:
        """Takes a block where segments expand."""
        at = self._place_expandable(size)
        if at == len(self._keys):
            return None
        del self._keys[at]
        block = self._free.pop(at)
        block.key = 0
        return block

    def best_fit(self, size: int, *, expandable: bool) -> Block | None:
        """The best fit, which stays in the pool."""
        if expandable:
            at = self._place_expandable(size)
        else:
            at = bisect_left(self._keys, size << SIZE_SHIFT)
        return None if at == len(self._keys) else self._free[at]

    def _place_expandable(self, size: int) -> int:
        """Where the best fit is; a larger block goes first as long as it can expand less
        (get_free_block).
        """
        free, keys = self._free, self._keys
        at, last = bisect_left(keys, size << SIZE_SHIFT), len(keys) - 1
        if at >= last:
            return at
        most = free[at].expandable_size
        # A block that is no smaller than that can only expand to more.
        while at < last and free[at + 1].size < most:
            following = free[at + 1].expandable_size
            if following >= most:
                break
            at += 1
            most = following
        return at


class NumberedPool(Pool):
    """A pool as release 2.12 has it: of blocks of one size that with the lowest number goes first,
    and not segments but blocks are numbered (BlockComparatorRegistrationCounter).

    The front of a block that is split is a new block. One that is freed keeps its number when it
    merges.
    """

    __slots__ = ("_numbers",)

    def __init__(
        self,
        numbers: "count[int]",
        *,
        small: bool,
        stream: Hashable,
        owner: Hashable,
        page_bytes: int,
    ) -> None:
        super().__init__(
            small=small, stream=stream, owner=owner, page_bytes=page_bytes, oldest_first=True
        )
        self._numbers = numbers

    def segment(
        self, address: int, size: int, number: int, expandable: ExpandableSegment | None = None
    ) -> Block:
        del number
        return super().segment(address, size, next(self._numbers), expandable)

    def split(self, block: Block, size: int) -> None:
        super().split(block, size)
        self.number(block)

    def number(self, block: Block) -> None:
        block.age = next(self._numbers)

    def add_merged(self, block: Block) -> Block:
        before = block.previous
        if before is not None and before.free:
            self.remove(before)
            before.age = block.age
            self.add(before)
        return super().add_merged(block)
