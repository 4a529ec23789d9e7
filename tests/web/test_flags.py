"""The page writes the flags that the command line reads."""

from __future__ import annotations

from tools.flags import FILE, generated


def test_the_flags_are_those_of_the_command_line() -> None:
    assert FILE.read_text("utf-8") == generated(), "run `make openapi`"
