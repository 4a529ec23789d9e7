"""What programs of blocks come to, run once and then worked out for other sizes."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeVar, TypeVarTuple

from trainfit.estimator.arithmetic import RecordedArithmetic, Recording, recording
from trainfit.estimator.legend import Legend

Sizes = TypeVar("Sizes", bound=Legend)
Way = TypeVar("Way", bound=Hashable)
Given = TypeVarTuple("Given")
Made = TypeVar("Made")
Filler = Callable[[list[Any]], Any]
"""Makes something anew of some numbers."""
MAX_RECORDINGS = 8
"""Of a program, those met last: there is another where other things are decided."""
MAX_COMPILED = 512
"""Some 30 kB each: those of every block of a few models in the ways that a search tries."""


class Compiled(Generic[Sizes, Made]):
    """What some work makes of sizes: records, tuples and lists of numbers and of what is the same
    for all sizes. Whatever else it reads is the same whenever it is asked.
    """

    def __init__(self, work: Callable[[Sizes], Made]) -> None:
        self._work = work
        self._missed = 0
        self._recordings: dict[bool, list[tuple[Recording, Filler]]] = {}

    def __call__(self, sizes: Sizes) -> Made:
        """What comes of these sizes. To record takes three times as long as the work:
        one that nobody asks for twice should not be.
        """
        inputs = attrgetter(*sizes.NUMBERS)(sizes)
        known = self._recordings.get(sizes.n_gathered > 0, [])
        for each, fill in known:
            numbers = each.again(inputs)
            if numbers is not None:
                made: Made = fill(numbers)
                return made
        self._missed += 1
        if self._missed % 2:
            return self._work(sizes)
        self._recordings[sizes.n_gathered > 0] = [
            self._recorded(sizes, inputs),
            *known[: MAX_RECORDINGS - 1],
        ]
        return self(sizes)

    def _recorded(self, sizes: Sizes, inputs: tuple[int, ...]) -> tuple[Recording, Filler]:
        """What the work does for these sizes."""
        recorded = RecordedArithmetic()
        given: dict[str, Any] = dict(zip(sizes.NUMBERS, map(recorded.input, inputs), strict=True))
        gathered = given["n"] if sizes.n_gathered else 0
        made = self._work(replace(sizes, **given, n_gathered=gathered))
        found, places = recording(recorded, len(inputs), _leaves(made))
        return found, _filler(made, iter(places))


@lru_cache(maxsize=MAX_COMPILED)
def compiled(
    work: Callable[[Sizes, Way, *Given], Made], way: Way, *given: *Given
) -> Compiled[Sizes, Made]:
    """Work for sizes, done once for a way of running and what is given."""
    return Compiled(lambda sizes: work(sizes, way, *given))


def _leaves(made: Any) -> Iterator[Any]:
    """What stands in records, tuples and lists, in order."""
    if isinstance(made, tuple | list):
        for each in made:
            yield from _leaves(each)
    else:
        yield made


def _filler(made: Any, places: Iterator[int]) -> Filler:
    """Makes the same anew of numbers, of which its own stand at the next of these places."""
    if not isinstance(made, tuple | list):
        return itemgetter(next(places))
    make = getattr(made, "_make", type(made))
    if len(made) > 1 and not any(isinstance(each, tuple | list) for each in made):
        leaves = itemgetter(*[next(places) for _ in made])
        return lambda numbers: make(leaves(numbers))
    fillers = [_filler(each, places) for each in made]
    return lambda numbers: make([fill(numbers) for fill in fillers])
