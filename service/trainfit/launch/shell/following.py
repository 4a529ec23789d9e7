"""The scripts of one launch, each followed once for all the ways through it that are the same.

What nobody knows of a launch is tried each way, and guards are passed where nothing is found before
them: a script that asks neither goes the same way again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainfit.launch.shell.choices import Choices
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.started import Command
from trainfit.launch.shell.state import Budget
from trainfit.launch.shell.texts import Texts


class ScriptAtItsEnd(Protocol):
    """A script that was followed to its end."""

    commands: list[Command]
    ends_early: list[tuple[Piece, str]]
    passed: list[Piece]
    read: list[str]
    passes_guards: bool
    meets_guards: bool


@dataclass(frozen=True, slots=True)
class OutcomeOfScript:
    """What came of a script. `read` are the paths of files that it read or called, `choices` the
    statements of which nothing says which way they go, `passes_guards` is None where it met none.
    """

    commands: Sequence[Command]
    ends_early: Sequence[tuple[Piece, str]]
    passed: Sequence[Piece]
    read: Sequence[str]
    choices: Choices
    passes_guards: bool | None
    steps: int
    length: int

    def holds(self, choices: Choices, *, passes_guards: bool) -> bool:
        """Whether it comes to the same where statements go as they are decided in `choices`."""
        return self.passes_guards in (None, passes_guards) and self.choices.goes_as(choices)


class Followings:
    """What came of the scripts of one launch, and the texts that they are made of."""

    def __init__(self) -> None:
        self.texts = Texts()
        self._followed: dict[Hashable, list[OutcomeOfScript]] = {}

    def followed(
        self,
        key: Hashable,
        budget: Budget,
        choices: Choices,
        follow: Callable[[Choices], ScriptAtItsEnd],
        *,
        passes_guards: bool,
    ) -> OutcomeOfScript:
        """What comes of a script that `key` tells from all others. `follow` is given choices that
        are decided as these are. All of it is charged to the budget. Raises ShellError.
        """
        known = self._followed.setdefault(key, [])
        found = next((e for e in known if e.holds(choices, passes_guards=passes_guards)), None)
        if found is not None:
            budget.spend_again(found.steps, found.length)
        else:
            steps, length = budget.steps, budget.length
            own = Choices(choices.decided)
            script = follow(own)
            found = OutcomeOfScript(
                script.commands,
                script.ends_early,
                script.passed,
                script.read,
                own,
                script.passes_guards if script.meets_guards else None,
                budget.steps - steps,
                budget.length - length,
            )
            known.append(found)
        choices.add(found.choices)
        return found
