"""Why a launch is not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainfit.errors import TrainfitError
from trainfit.launch.missing import OVERRIDES, asked_for
from trainfit.launch.settings import Setting


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong: at a setting, at a line of a file, or with the launch as a whole.

    `settled_by` is a pointer to the field of a job that would do in the place of what is wrong.
    """

    message: str
    file: str | None = None
    line: int | None = None
    settled_by: str | None = None

    @classmethod
    def at(cls, setting: Setting, message: str, settled_by: str | None = None) -> Complaint:
        return cls(f"{setting.where}: {message}", setting.file, setting.line, settled_by)

    @property
    def missing(self) -> tuple[str, ...]:
        """Pointers into the launch: what is given at any of them settles it."""
        field = () if self.settled_by is None else (OVERRIDES + self.settled_by,)
        return tuple(dict.fromkeys((*asked_for(self.message), *field)))


class LaunchError(TrainfitError, ValueError):
    """The launch cannot be read as a job; every complaint at once."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__("; ".join(each.message for each in complaints))
        self.complaints: Sequence[Complaint] = complaints
