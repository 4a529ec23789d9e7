"""A command line run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from trainfit.cli import main


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command left behind."""

    code: str | int | None
    out: str
    err: str


Run = Callable[[str], Outcome]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `trainfit` with the words of a line."""

    def run_words(line: str) -> Outcome:
        code: str | int | None = 0
        try:
            main(line.split())
        except SystemExit as stop:
            code = stop.code
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run_words
