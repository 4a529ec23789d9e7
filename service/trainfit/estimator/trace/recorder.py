"""Writes down what a rank asks of the allocator."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trainfit.estimator.allocator import (
    Allocate,
    BeginPool,
    EmptyCache,
    EndPool,
    Free,
    Reach,
    RecordStream,
    Request,
)
from trainfit.estimator.tensors import Tensor
from trainfit.estimator.trace.moments import TensorEvent

_new = tuple.__new__
"""A record of a trace, of which there are tens of thousands, in half the time that it takes to call
its class.
"""


class HeldTensor(NamedTuple):
    """A tensor that is there: the names of its blocks, the bytes of each, and their stream."""

    names: Sequence[Hashable]
    nbytes: int
    stream: Hashable = 0


class TracePart(list[Request]):
    """What is asked for in a part of a run; `moments` are named, each at the request with which it
    begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[tuple[int, str]] = []

    @classmethod
    def joined(cls, *parts: TracePart) -> TracePart:
        """One behind the other."""
        whole = cls()
        for part in parts:
            whole.moments.extend([(len(whole) + at, name) for at, name in part.moments])
            whole.extend(part)
        return whole


def lasting(part: TracePart) -> TracePart:
    """What is asked for in a part and still there behind it."""
    gone = {request.tensor for request in part if isinstance(request, Free)}
    left = TracePart()
    left.extend([each for each in part if isinstance(each, Allocate) and each.tensor not in gone])
    return left


class Graphs(NamedTuple):
    """What a rank asks for while its CUDA graphs are `captured`, and at each step with these."""

    captured: TracePart
    step: TracePart


class Trace(NamedTuple):
    """What a rank asks for when its model is `loaded`, at its `first` step, and at each `later`
    one; and the most bytes that it has asked for at once, and when that was. `tensors` are those
    that go by a number. Where it has CUDA `graphs`, steps are as a later one until these are
    captured.
    """

    loaded: TracePart
    first: TracePart
    later: TracePart
    peak_bytes: int
    peak_moment: str
    tensors: Mapping[Hashable, Tensor]
    graphs: Graphs | None = None

    @property
    def steps(self) -> tuple[TracePart, ...]:
        """All that is asked for up to the end of a step after which steps are alike."""
        if self.graphs is None:
            return self.loaded, self.first, self.later
        return self.loaded, self.first, self.later, TracePart.joined(*self.graphs)

    @property
    def recurring(self) -> TracePart:
        """What each of the steps asks for that are alike."""
        return self.later if self.graphs is None else self.graphs.step


class Passage:
    """Turns that run through many times, as those of a kind of layer do, written down once.

    What comes and goes within goes by the same name every time, so that its requests are the same
    ones; what is there before or stays behind has a place in them for a name of its own.
    """

    def __init__(self, turns: Iterable[TensorEvent]) -> None:
        turns = tuple(turns)
        gone = {tensor for tensor, comes in turns if not comes}
        self.requests: list[Request] = []
        self.outlasting: list[tuple[int, TensorEvent]] = []
        """Where requests for such tensors belong."""
        self.bytes = self.peak_bytes = 0
        """How much more there is behind it, and at its highest."""
        within: dict[Tensor, HeldTensor] = {}
        for turn in turns:
            tensor, comes = turn
            if comes and tensor in gone:
                within[tensor] = _held(tensor)
            if tensor not in within:
                self.outlasting.append((len(self.requests), turn))
            elif comes:
                _allocate(within[tensor], self.requests)
            else:
                _free(within[tensor], self.requests)
            self.bytes += tensor.bytes if comes else -tensor.bytes
            self.peak_bytes = max(self.peak_bytes, self.bytes)


class Recorder:
    """Requests in order, with the most that was asked for at once. Names are numbers."""

    def __init__(self, first_name: int = 0) -> None:
        self.requests = TracePart()
        self.bytes = 0
        self.peak_bytes = 0
        self.peak_moment = self._moment = ""
        self.tensors: dict[Hashable, Tensor] = {}
        self._names = first_name

    @property
    def moment(self) -> str:
        """What the rank is at."""
        return self._moment

    @moment.setter
    def moment(self, name: str) -> None:
        self._moment = name
        self.requests.moments.append((len(self.requests), name))

    def make(self, nbytes: int, blocks: int = 1, stream: Hashable = 0) -> HeldTensor:
        """So many blocks, of so many bytes each, on a stream."""
        held = self._named(nbytes, blocks, stream)
        _allocate(held, self.requests)
        self.bytes += nbytes * blocks
        if self.bytes > self.peak_bytes:
            self._note(self.bytes)
        return held

    def release(self, *tensors: HeldTensor) -> None:
        for held in tensors:
            _free(held, self.requests)
            self.bytes -= held.nbytes * len(held.names)

    def release_behind(self, stream: Hashable, *tensors: HeldTensor) -> None:
        """Release what another stream reads, when that one is past it."""
        for held in tensors:
            self.requests.extend([RecordStream(name, stream) for name in held.names])
        self.release(*tensors)

    def reach(self, stream: Hashable, frees: int | None = None) -> None:
        """A stream is past so many more of what waits for it, None for all."""
        self.requests.append(Reach(stream, frees))

    def run(self, passage: Passage, here: dict[Tensor, HeldTensor]) -> None:
        """What comes and goes; `here` are the tensors that are there, which it changes."""
        requests, written, done = self.requests, passage.requests, 0
        for index, (tensor, comes) in passage.outlasting:
            if done < index:
                requests += written[done:index]
                done = index
            if comes:
                blocks = tensor.storages
                held = here[tensor] = self._named(tensor.bytes // blocks, blocks, tensor.stream)
                for name in held.names:
                    self.tensors[name] = tensor
                _allocate(held, requests)
            else:
                _free(here.pop(tensor), requests)
        requests += written[done:] if done else written
        if self.bytes + passage.peak_bytes > self.peak_bytes:
            self._note(self.bytes + passage.peak_bytes)
        self.bytes += passage.bytes

    def empty_cache(self) -> None:
        self.requests.append(EmptyCache())

    def begin_pool(self, owner: Hashable) -> None:
        """What comes from here on goes to the pool of a graph that is captured."""
        self.requests.append(BeginPool(owner))

    def end_pool(self, owner: Hashable) -> None:
        self.requests.append(EndPool(owner))

    def forget_peak(self) -> None:
        """What was there at once so far counts no more."""
        self.peak_bytes, self.peak_moment = self.bytes, self.moment

    def cut(self) -> TracePart:
        """What was written down since the last cut."""
        requests, self.requests = self.requests, TracePart()
        return requests

    def name_from(self, name: int) -> None:
        """Names of what is made from here on begin at this one."""
        self._names = name

    def trace(self, loaded: TracePart, first: TracePart) -> Trace:
        """All of it, of which a later step is what was written down since the last cut."""
        return Trace(loaded, first, self.cut(), self.peak_bytes, self.peak_moment, self.tensors)

    def _named(self, nbytes: int, blocks: int, stream: Hashable) -> HeldTensor:
        first = self._names
        self._names = first + blocks
        names = (first,) if blocks == 1 else range(first, first + blocks)
        return _new(HeldTensor, (names, nbytes, stream))

    def _note(self, nbytes: int) -> None:
        self.peak_bytes, self.peak_moment = nbytes, self._moment


def _held(tensor: Tensor) -> HeldTensor:
    """A tensor under its own name."""
    blocks = tensor.storages
    names = [tensor] if blocks == 1 else [(tensor, number) for number in range(blocks)]
    return HeldTensor(names, tensor.bytes // blocks, tensor.stream)


def _allocate(held: HeldTensor, requests: list[Request]) -> None:
    names, nbytes, stream = held
    for name in names:
        requests.append(_new(Allocate, (name, nbytes, stream)))


def _free(held: HeldTensor, requests: list[Request]) -> None:
    for name in held[0]:
        requests.append(_new(Free, (name,)))
