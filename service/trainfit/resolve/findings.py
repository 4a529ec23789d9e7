"""What is inconsistent in a job, with a change that mends it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from trainfit.errors import TrainfitError


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a JSON Patch (RFC 6902) on the job."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, a stable code, words, and a change that would be right.

    `line` counts from 1 where the pointer leads to a text of several lines. `missing` are pointers
    to places in the body: what is given at any one of them settles it.
    """

    pointer: str
    code: str
    message: str
    suggestion: tuple[Change, ...] = ()
    line: int | None = None
    missing: tuple[str, ...] = ()


class RefusedError(TrainfitError, ValueError):
    """The job is inconsistent; every finding at once."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


@dataclass(slots=True)
class Findings:
    """Findings as they are made. `refuse` ends the collection where later checks make no sense."""

    found: list[Finding] = field(default_factory=list)

    def add(self, pointer: str, code: str, message: str, *suggestion: Change) -> None:
        self.found.append(Finding(pointer, code, message, suggestion))

    def refuse(self) -> None:
        """Raise RefusedError if anything was found."""
        if self.found:
            raise RefusedError(tuple(self.found))


def put(path: str, value: Any) -> Change:
    """Set a field of the job, given or not."""
    return Change("add", path, value)
