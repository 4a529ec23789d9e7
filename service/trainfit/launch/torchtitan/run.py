"""A launch of torchtitan while it is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trainfit.launch.draft import Draft, Reading
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.torchtitan.releases import TorchtitanRelease


@dataclass(frozen=True, slots=True)
class TorchtitanRun:
    """What is read, into what, and by whose rules. `idle` are keys that others switch off."""

    program: TrainingProgram
    reading: Reading
    draft: Draft
    release: TorchtitanRelease
    idle: set[str] = field(default_factory=set)

    @property
    def whose(self) -> str:
        """Whose defaults hold."""
        return f"torchtitan {self.release.name}"

    def given(self, *keys: str) -> list[Setting]:
        """The settings of these keys that there are."""
        return [setting for key in keys if (setting := self.reading.get(key)) is not None]

    def decide(self, pointer: str, value: Any, *keys: str) -> None:
        """Set a field as these keys together say, or as their defaults do where none is given."""
        if settings := self.given(*keys):
            self.draft.put(pointer, value, *settings)
        else:
            self.draft.default(pointer, value, self.whose)
