"""Launches as tests write them, and what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

from trainfit.launch.account import Account
from trainfit.launch.read import read_launch
from trainfit.specs.launch import Launch

DATA = Path(__file__).parent.parent / "data" / "launch"
Job = dict[str, Any]


class Read(NamedTuple):
    """A job and the account of its keys."""

    job: Job
    account: Account

    @property
    def unsupported(self) -> set[str]:
        return {each.key for each in self.account.unsupported}

    @property
    def bounded(self) -> set[str]:
        return {each.key for each in self.account.bounded}

    @property
    def left_out(self) -> set[str]:
        """What is not modelled, bounded or not."""
        return self.unsupported | self.bounded

    @property
    def irrelevant(self) -> set[str]:
        return {each.key for each in self.account.irrelevant}

    @property
    def recognised(self) -> set[str]:
        return {each.key for each in self.account.recognised}

    @property
    def keys(self) -> list[str]:
        """Every key that the account tells of, as often as it does."""
        account = self.account
        parts = (account.recognised, account.irrelevant, account.unsupported, account.bounded)
        return [each.key for part in parts for each in part]

    @property
    def defaulted(self) -> dict[str, Any]:
        return {each.pointer: each.value for each in self.account.defaulted}

    def field(self, pointer: str) -> Any:
        """The field of the job; None where it is not set."""
        part: Any = self.job
        for name in pointer.strip("/").split("/"):
            part = part.get(name) if isinstance(part, dict) else None
        return part

    def fields(self) -> dict[str, Any]:
        """Every field of the job by its pointer; a model is one field."""
        return dict(_leaves(self.job, ""))


def _leaves(part: Mapping[str, Any], pointer: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        below = f"{pointer}/{name}"
        if isinstance(value, dict) and below != "/model":
            yield from _leaves(value, below)
        else:
            yield below, value


def launch_of(
    files: Mapping[str, str] | None = None, argv: Sequence[str] | None = None, **others: Any
) -> Launch:
    """A launch of files by their paths, and of a command line in words."""
    sent = [{"path": path, "content": content} for path, content in (files or {}).items()]
    words = None if argv is None else list(argv)
    return Launch.model_validate({"files": sent, "argv": words, **others})


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where more time of the processor is taken, whatever else the machine does meanwhile."""
    started = thread_time()
    yield
    assert thread_time() - started < seconds


def read(launch: Launch) -> Read:
    found = read_launch(launch)
    return Read(found.job, found.launch.account)
