"""Programs of blocks that run once, and are then worked out for other sizes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

from trainfit.estimator.arithmetic import Course, Written, course
from trainfit.estimator.ledger import Group, Kind
from trainfit.estimator.legend import Legend
from trainfit.estimator.segment import Sums, Table, add_up

Sizes = TypeVar("Sizes", bound=Legend)
NAMES = ("h", "b", "s", "V", "t", "c", "e", "x", "n", "n_shard", "streams")
"""The sizes that are worked with as numbers. `n_gathered` is n or 0."""
MAX_COURSES = 8
"""Of a program, those met last: other courses are taken where other things are decided."""


class Outline(NamedTuple):
    """An operation, and where its bytes and the shape of its weight stand among some numbers."""

    name: str
    bytes_of: Callable[[list[Any]], tuple[int, ...]]
    dropped_by: str
    kind: Kind | None
    weight_of: Callable[[list[Any]], tuple[int, int]] | None

    def filled_in(self, numbers: list[Any]) -> Sums:
        weight = None if self.weight_of is None else self.weight_of(numbers)
        found = self.bytes_of(numbers)
        return Sums._make((self.name, *found, self.dropped_by, self.kind, weight))


class Compiled:
    """What a program of some groups of operations comes to where `modules` are recomputed. Whatever
    else it reads besides the sizes in NAMES is the same whenever it is asked.
    """

    def __init__(self, run: Callable[[Sizes], Iterable[Group]], modules: frozenset[str]) -> None:
        self._run: Callable[[Any], Iterable[Group]] = run
        self._modules = modules
        self._missed = 0
        self._courses: dict[bool, list[tuple[Course, list[list[Outline]]]]] = {}

    def table(self, sizes: Legend) -> Table:
        """The bytes of every operation for these sizes. Writing a course down takes three times as
        long as running: one that nobody asks for twice should not be.
        """
        inputs = _inputs(sizes)
        known = self._courses.get(sizes.n_gathered > 0, [])
        for each, outlines in known:
            numbers = each.again(inputs)
            if numbers is not None:
                return [[outline.filled_in(numbers) for outline in group] for group in outlines]
        self._missed += 1
        if self._missed % 2:
            return add_up(tuple(self._run(sizes)), self._modules)
        self._courses[sizes.n_gathered > 0] = [self._written(sizes), *known[: MAX_COURSES - 1]]
        return self.table(sizes)

    def _written(self, sizes: Legend) -> tuple[Course, list[list[Outline]]]:
        """The course that the program takes for these sizes."""
        written = Written()
        given: dict[str, Any] = dict(zip(NAMES, map(written.input, _inputs(sizes)), strict=True))
        gathered = given["n"] if sizes.n_gathered else 0
        table = add_up(
            tuple(self._run(replace(sizes, **given, n_gathered=gathered))), self._modules
        )
        results = [number for group in table for sums in group for number in _numbers(sums)]
        found, places = course(written, len(NAMES), results)
        left = iter(places)
        return found, [[_outline(sums, left) for sums in group] for group in table]


_inputs = attrgetter(*NAMES)


def _numbers(sums: Sums) -> tuple[int, ...]:
    return *sums.bytes, *(sums.weight or ())


def _outline(sums: Sums, places: Iterator[int]) -> Outline:
    """The operation, whose numbers stand at the next of these places."""
    bytes_of = itemgetter(*[next(places) for _ in sums.bytes])
    weight_of = None if sums.weight is None else itemgetter(*[next(places) for _ in sums.weight])
    return Outline(sums.name, bytes_of, sums.dropped_by, sums.kind, weight_of)
