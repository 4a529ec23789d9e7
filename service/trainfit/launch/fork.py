"""What a launch leaves open is read in every way that it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
Way = tuple[int, ...]
"""Which option was taken at each fork."""


class Fork:
    """The forks of one reading. It follows a way, and then always takes the first option; `others`
    are the ways that it passed by.
    """

    def __init__(self, way: Way = ()) -> None:
        self.others: list[Way] = []
        self._way = way
        self._taken: list[int] = []

    def choose(self, options: Sequence[T]) -> T:
        """One of these options, of which the first is the likeliest."""
        if len(options) == 1:
            return options[0]
        depth = len(self._taken)
        index = self._way[depth] if depth < len(self._way) else 0
        if depth >= len(self._way):
            self.others += [(*self._taken, other) for other in range(1, len(options))]
        self._taken.append(index)
        return options[index]


def every_way(read: Callable[[Fork], T]) -> Iterator[T]:
    """What `read` makes of every way through its forks, the likeliest first. It has to come to the
    same forks whenever it goes the same way.
    """
    ways: list[Way] = [()]
    while ways:
        fork = Fork(ways.pop(0))
        yield read(fork)
        ways += fork.others
