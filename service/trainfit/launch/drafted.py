"""A launch that no reader knows, as what it says in words that everyone uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Said:
    """A word that was recognised, where it stands, and the field of a job that it may mean. `used`
    says whether the draft has it: one that is said otherwise elsewhere, or unknown, is only shown.
    """

    file: str
    line: int | None
    key: str
    value: Any
    pointer: str
    used: bool


@dataclass(frozen=True, slots=True)
class DraftedJob:
    """A part of a job to confirm and complete, the programs that were seen, and what was read."""

    programs: list[str]
    job: dict[str, Any]
    said: list[Said]
