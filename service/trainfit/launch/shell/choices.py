"""Conditions that nothing sent decides: how often each is met, and which way is to be taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainfit.launch.shell.piece import Piece

Place = tuple[str, int | None, str]
"""The file and the line of a statement, and what decides there: the second condition of an if."""
Decisions = Mapping[Place, int]
"""Which of its ways each statement goes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A statement that goes one of so many ways, and why it is not known which."""

    place: Place
    ways: int
    why: str


@dataclass(slots=True)
class Choices:
    """The statements of scripts whose way is not known, but for those that are `decided`. One that
    is met twice can go another way each time, and so can two of a kind in one line.
    """

    decided: Decisions = field(default_factory=dict)
    _met: dict[Place, Choice | None] = field(default_factory=dict)
    _taken: set[Place] = field(default_factory=set)

    def meet(self, at: Piece, by: str, ways: int, why: str) -> int | None:
        """Which way this statement goes `by` what decides there; None where that is not known."""
        place = (at.file, at.line, by)
        if place in self.decided:
            self._taken.add(place)
            return self.decided[place]
        self._met[place] = None if place in self._met else Choice(place, ways, why)
        return None

    def goes_as(self, others: Choices) -> bool:
        """Whether all that was met here goes the same way as it is decided there."""
        return self._met.keys().isdisjoint(others.decided) and all(
            others.decided.get(place) == self.decided[place] for place in self._taken
        )

    def add(self, others: Choices) -> None:
        """What another script meets."""
        for place, choice in others._met.items():
            self._met[place] = None if place in self._met else choice

    def open(self) -> list[Choice]:
        """Those that are met once, in their order."""
        return [choice for choice in self._met.values() if choice is not None]
