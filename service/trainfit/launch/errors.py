"""Why a launch is not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainfit.launch.settings import Setting


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong: at a setting, at a line of a file, or with the launch as a whole."""

    message: str
    file: str | None = None
    line: int | None = None

    @classmethod
    def at(cls, setting: Setting, message: str) -> Complaint:
        return cls(f"{setting.where}: {message}", setting.file, setting.line)


class LaunchError(ValueError):
    """The launch cannot be read as a job; every complaint at once."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__("; ".join(each.message for each in complaints))
        self.complaints: Sequence[Complaint] = complaints
