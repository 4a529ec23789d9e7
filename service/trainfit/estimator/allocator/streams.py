"""Blocks that other streams use beside their own, and frees that wait for these streams.

Source: `recordStream`, `insert_events`, `process_events` and
`insert_events_deferred_until_no_capture` of c10/cuda/CUDACachingAllocator.cpp.
"""

from collections import deque
from collections.abc import Hashable, Iterator

from trainfit.estimator.allocator.blocks import Block

Stream = Hashable
NOBODY: frozenset[Stream] = frozenset()


class StreamUses:
    """Who else uses a block. A free waits until each of these streams has come past it; of frees
    that wait for one stream the first is reached first.
    """

    def __init__(self) -> None:
        self.streams: dict[Block, frozenset[Stream]] = {}
        self.waiting_bytes = 0
        """In blocks whose free waits."""
        self.due = False
        """Whether a block may be that nobody waits for any more."""
        self._captured: dict[Block, frozenset[Stream]] = {}
        self._deferred: list[Block] = []
        self._waiting: dict[Stream, deque[Block]] = {}
        self._events: dict[Block, int] = {}
        self._reached: dict[Stream, int] = {}

    def of(self, block: Block | None) -> frozenset[Stream]:
        """The other streams that use a block that the program holds."""
        return NOBODY if block is None else self.streams.get(block, NOBODY)

    @property
    def waiting(self) -> Iterator[Block]:
        """The blocks whose frees wait."""
        yield from self._events
        yield from self._deferred

    def record(self, block: Block, stream: Stream, *, capturing: bool) -> None:
        """A stream uses a block."""
        self.streams[block] = self.of(block) | {stream}
        if capturing:
            self._captured[block] = self._captured.get(block, NOBODY) | {stream}

    def free(self, block: Block, *, capturing: bool) -> None:
        """The program has freed a block that others use."""
        self.waiting_bytes += block.size
        if capturing:
            self._deferred.append(block)
            self.due = True
        else:
            self._wait(block)

    def reach(self, stream: Stream, frees: int | None) -> None:
        """A stream has come past so many more of the frees that wait for it, None for all."""
        waiting = len(self._waiting.get(stream, ()))
        reached = waiting if frees is None else self._reached.get(stream, 0) + frees
        self._reached[stream] = min(reached, waiting)
        self.due = self.due or waiting > 0

    def reach_all(self) -> None:
        """Every stream has come past all that waits for it."""
        self._wait_for_deferred()
        for stream in self._waiting:
            self.reach(stream, None)

    def take_due(self) -> Iterator[Block]:
        """The blocks that nobody waits for any more, each once."""
        self._wait_for_deferred()
        self.due = False
        for stream, blocks in tuple(self._waiting.items()):
            for _ in range(self._reached.pop(stream, 0)):
                block = blocks.popleft()
                self._events[block] -= 1
            if not blocks:
                del self._waiting[stream]
        for block in [block for block, events in self._events.items() if not events]:
            del self._events[block]
            self.waiting_bytes -= block.size
            yield block

    def state(self) -> Hashable:
        """All that later frees rest on."""
        return (
            frozenset(
                (stream, self._reached.get(stream, 0), *(block.address for block in blocks))
                for stream, blocks in self._waiting.items()
            ),
            tuple((block.address, self.streams[block]) for block in self._deferred),
        )

    def _wait(self, block: Block) -> None:
        streams = self.streams.pop(block)
        self._events[block] = len(streams)
        self.due = self.due or not streams
        for stream in streams:
            self._waiting.setdefault(stream, deque()).append(block)

    def _wait_for_deferred(self) -> None:
        """What was freed while a graph was captured waits from now on, but not for streams that
        used it within the capture: these are done.
        """
        deferred, self._deferred = self._deferred, []
        for block in deferred:
            self.streams[block] -= self._captured.pop(block, NOBODY)
            self._wait(block)
