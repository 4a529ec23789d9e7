"""The GPU as the allocator sees it: memory up to a limit, and addresses for it."""

from collections import defaultdict
from collections.abc import Hashable

ADDRESS_SPACE = 1 << 47
"""What a process can address, and where addresses that go down begin."""
UNLIMITED = 1 << 44
"""Bytes of a GPU without a limit, where an expandable segment needs its length."""


class Addresses:
    """Where CUDA places what it hands out, as far as it can be known.

    Most recordings show each new segment below the one before; others, above. What was given back
    is handed out again for the next segment of its size.
    """

    def __init__(self, *, descending: bool = True) -> None:
        self._descending = descending
        self._next = ADDRESS_SPACE if descending else ADDRESS_SPACE >> 8
        self._given_back: defaultdict[int, list[int]] = defaultdict(list)

    def take(self, size: int) -> int:
        if given_back := self._given_back.get(size):
            return given_back.pop()
        if self._descending:
            self._next -= size
            return self._next
        address = self._next
        self._next += size
        return address

    def give_back(self, address: int, size: int) -> None:
        self._given_back[size].append(address)

    def state(self) -> Hashable:
        """All that later addresses rest on."""
        held = frozenset((size, tuple(held)) for size, held in self._given_back.items() if held)
        return self._next, held


class Device:
    """A GPU with `capacity_bytes` for this allocator, None for no limit.

    `total_bytes` is what the GPU reports as its memory, of which shares are reckoned; the capacity
    where it is left out. What others take (a context, communicators) is the difference.
    """

    __slots__ = ("addresses", "capacity_bytes", "made", "peak_bytes", "total_bytes", "used_bytes")

    def __init__(
        self,
        capacity_bytes: int | None = None,
        *,
        total_bytes: int | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.total_bytes = capacity_bytes if total_bytes is None else total_bytes
        self.addresses = Addresses() if addresses is None else addresses
        self.used_bytes = 0
        self.peak_bytes = 0
        self.made = 0
        """Segments made so far."""

    def allocate(self, size: int) -> int | None:
        """The address of new memory (cudaMalloc), None where the GPU has no room."""
        return self.reserve(size) if self.create(size) else None

    def reserve(self, size: int) -> int:
        """Addresses for a segment (cuMemAddressReserve)."""
        self.made += 1
        return self.addresses.take(size)

    def hold(self, size: int) -> None:
        """A segment that is there already."""
        self.made += 1
        self.create(size)

    def free(self, address: int, size: int) -> None:
        """Take memory back (cudaFree)."""
        self.release(size)
        self.addresses.give_back(address, size)

    def map(self, segment: int, address: int, size: int) -> bool:  # noqa: ARG002
        """Put memory behind addresses of a segment, unless there is no room (cuMemMap)."""
        return self.create(size)

    def unmap(self, segment: int, address: int, size: int) -> None:  # noqa: ARG002
        """Take memory back whose addresses stay reserved (cuMemUnmap)."""
        self.release(size)

    def create(self, size: int) -> bool:
        """Whether there is room for so much, which is then taken (cuMemCreate)."""
        used = self.used_bytes + size
        if self.capacity_bytes is not None and used > self.capacity_bytes:
            return False
        self.used_bytes = used
        if used > self.peak_bytes:
            self.peak_bytes = used
        return True

    def release(self, size: int) -> None:
        """Take memory back (cuMemRelease)."""
        self.used_bytes -= size

    @property
    def reservable_bytes(self) -> int:
        """Addresses that an expandable segment reserves: 9/8 of the GPU."""
        total = UNLIMITED if self.total_bytes is None else self.total_bytes
        return total + total // 8
