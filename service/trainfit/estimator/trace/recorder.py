"""Writes down what a rank asks of the allocator."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from trainfit.estimator.allocator import Allocate, Free, Request
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import Turn


class Held(NamedTuple):
    """A tensor that is there: the names of its blocks, and the bytes of each."""

    names: range
    nbytes: int


class Trace(NamedTuple):
    """What a rank asks for when its model is `loaded`, at its `first` step, and at each `later`
    one; and the most bytes that it has asked for at once, and when that was.
    """

    loaded: Sequence[Request]
    first: Sequence[Request]
    later: Sequence[Request]
    peak_bytes: int
    peak_moment: str


class Recorder:
    """Requests in order, with the most that was asked for at once."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.bytes = 0
        self.peak_bytes = 0
        self.moment, self.peak_moment = "", ""
        self._names = 0

    def make(self, nbytes: int, blocks: int = 1, stream: Hashable = 0) -> Held:
        """So many blocks, of so many bytes each, on a stream."""
        held = Held(range(self._names, self._names + blocks), nbytes)
        self._names += blocks
        self.requests.extend([Allocate(name, nbytes, stream) for name in held.names])
        self.bytes += nbytes * blocks
        if self.bytes > self.peak_bytes:
            self.peak_bytes, self.peak_moment = self.bytes, self.moment
        return held

    def release(self, *tensors: Held) -> None:
        for held in tensors:
            self.requests.extend([Free(name) for name in held.names])
            self.bytes -= held.nbytes * len(held.names)

    def run(self, turns: Iterable[Turn], here: dict[Tensor, Held]) -> None:
        """What comes and goes; `here` are the tensors that are there, which it changes."""
        for tensor, comes in turns:
            if comes:
                blocks = tensor.storages
                here[tensor] = self.make(tensor.bytes // blocks, blocks)
            else:
                self.release(here.pop(tensor))

    def cut(self) -> Sequence[Request]:
        """What was written down since the last cut."""
        requests, self.requests = self.requests, []
        return requests
