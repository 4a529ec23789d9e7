"""Arithmetic recorded as it is done, to be done again with other numbers.

What reads numbers that write (`Number`) decides by them: whether ranks share out the sequence,
which of two moments is higher. Every such decision is recorded as well, so that numbers by
which one would fall otherwise are found out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

Plain = int | float | Fraction
Work = Callable[[Any, Any], Any]


def _ceil(a: Any, _: Any) -> Any:
    return ceil(a)


def _bit_length(a: Any, _: Any) -> Any:
    return a.bit_length()


class RecordedArithmetic:
    """Steps of arithmetic over some inputs, each once, and what was decided by them."""

    def __init__(self) -> None:
        self.made: list[tuple[Work, int, int] | None] = []
        """How each number is made of two before it; None of inputs and constants."""
        self.constants: dict[int, Hashable] = {}
        self.decided: dict[int, bool] = {}
        """By its number, whether it is one that counts as true."""
        self._known: dict[tuple[Work, int, int], Number] = {}
        self._places: dict[tuple[type, Hashable], int] = {}

    def input(self, value: int) -> Number:
        """One that is above zero."""
        self.made.append(None)
        return Number(self, len(self.made) - 1, value, positive=True)

    def place(self, number: Number | Hashable) -> int:
        """Where a number stands, or anything that is the same for all numbers."""
        if isinstance(number, Number):
            return number.place
        key = type(number), number
        if key not in self._places:
            self._places[key] = len(self.made)
            self.constants[len(self.made)] = number
            self.made.append(None)
        return self._places[key]

    def work(
        self, work: Work, a: Number | Plain, b: Number | Plain, *, positive: bool = False
    ) -> Number:
        """What is made of two."""
        key = work, self.place(a), self.place(b)
        known = self._known.get(key)
        if known is None:
            value = work(_value(a), _value(b))
            known = self._known[key] = Number(self, len(self.made), value, positive=positive)
            self.made.append(key)
        return known


def _value(number: Number | Plain) -> Any:
    return number.value if type(number) is Number else number


def _is_positive(number: Number | Plain) -> bool:
    return number.positive if isinstance(number, Number) else number > 0


class Number:
    """A number that writes down what is done with it. It is no int: whatever cannot write down what
    it makes of one, as `int()`, raises TypeError. Of one that is `positive` it is known that it is
    above zero wherever all is decided as it was.
    """

    __slots__ = ("place", "positive", "recorded", "value")

    def __init__(
        self, recorded: RecordedArithmetic, place: int, value: Any, *, positive: bool
    ) -> None:
        self.recorded, self.place, self.value, self.positive = recorded, place, value, positive

    def __add__(self, other: Number | Plain) -> Number:
        if type(other) is int and not other:
            return self
        positive = self.positive or _is_positive(other)
        return self.recorded.work(operator.add, self, other, positive=positive)

    __radd__ = __add__

    def __mul__(self, other: Number | Plain) -> Any:
        if type(other) is int and other in (0, 1):
            return other and self
        positive = self.positive and _is_positive(other)
        return self.recorded.work(operator.mul, self, other, positive=positive)

    __rmul__ = __mul__

    def __sub__(self, other: Number | Plain) -> Number:
        if type(other) is int and not other:
            return self
        return self.recorded.work(operator.sub, self, other)

    def __rsub__(self, other: Plain) -> Number:
        return self.recorded.work(operator.sub, other, self)

    def __floordiv__(self, other: Number | Plain) -> Number:
        return self.recorded.work(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Plain) -> Number:
        return self.recorded.work(operator.floordiv, other, self)

    def __truediv__(self, other: Number | Plain) -> Number:
        return self.recorded.work(operator.truediv, self, other, positive=self.positive)

    def __mod__(self, other: Number | Plain) -> Number:
        return self.recorded.work(operator.mod, self, other)

    def __neg__(self) -> Number:
        return self.recorded.work(operator.sub, 0, self)

    def __pos__(self) -> Number:
        return self

    def __ceil__(self) -> Number:
        return self.recorded.work(_ceil, self, 0, positive=self.positive)

    def __rlshift__(self, other: Plain) -> Number:
        return self.recorded.work(operator.lshift, other, self)

    def bit_length(self) -> Number:
        return self.recorded.work(_bit_length, self, 0)

    def __bool__(self) -> bool:
        if self.positive:
            return True
        self.positive = self.recorded.decided[self.place] = bool(self.value)
        return self.positive

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Number, int, float, Fraction)):
            return NotImplemented
        return bool(self.recorded.work(operator.eq, self, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Number | Plain) -> bool:
        return bool(self.recorded.work(operator.lt, self, other))

    def __gt__(self, other: Number | Plain) -> bool:
        return bool(self.recorded.work(operator.gt, self, other))

    def __le__(self, other: Number | Plain) -> bool:
        return not self > other

    def __ge__(self, other: Number | Plain) -> bool:
        return not self < other

    __hash__ = None  # type: ignore[assignment]


class Recording(NamedTuple):
    """What was recorded, as far as it leads to some results: constants behind the inputs, the
    steps that lead to decisions, what was decided, and all other steps.
    """

    constants: tuple[Hashable, ...]
    deciding: tuple[tuple[Work, int, int], ...]
    decided: tuple[tuple[int, bool], ...]
    steps: tuple[tuple[Work, int, int], ...]

    def again(self, inputs: Sequence[int]) -> list[Any] | None:
        """Every number for these inputs; None where anything would be decided otherwise."""
        values = [*inputs, *self.constants]
        for work, a, b in self.deciding:
            values.append(work(values[a], values[b]))
        for place, decision in self.decided:
            if bool(values[place]) is not decision:
                return None
        for work, a, b in self.steps:
            values.append(work(values[a], values[b]))
        return values


def recording(
    recorded: RecordedArithmetic, inputs: int, results: Iterable[Number | Hashable]
) -> tuple[Recording, list[int]]:
    """What leads to these results, and where each of them then stands."""
    wanted = [recorded.place(each) for each in results]
    places = {place: place for place in range(inputs)}

    def leading_to(ends: Iterable[int]) -> list[int]:
        """The numbers that are not there yet, in their order."""
        found: set[int] = set()
        left = [end for end in ends if end not in places]
        while left:
            place = left.pop()
            if place not in found and place not in places:
                found.add(place)
                made = recorded.made[place]
                left += made[1:] if made is not None else ()
        return sorted(found)

    def placed(numbers: Iterable[int]) -> None:
        for number in numbers:
            places[number] = len(places)

    def steps(numbers: Iterable[int]) -> Iterable[tuple[Work, int, int]]:
        for number in numbers:
            made = recorded.made[number]
            if made is not None:
                work, a, b = made
                yield work, places[a], places[b]

    constants = sorted(recorded.constants.keys() & set(leading_to([*recorded.decided, *wanted])))
    placed(constants)
    deciding = leading_to(recorded.decided)
    placed(deciding)
    others = leading_to(wanted)
    placed(others)
    found = Recording(
        tuple([recorded.constants[place] for place in constants]),
        tuple(steps(deciding)),
        tuple([(places[place], decision) for place, decision in recorded.decided.items()]),
        tuple(steps(others)),
    )
    return found, [places[place] for place in wanted]
