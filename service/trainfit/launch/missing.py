"""What a launch leaves open, as messages ask for it, and where in a launch it can be given."""

from __future__ import annotations

import re
from collections.abc import Iterator

ARGUMENTS = "/argv"
OVERRIDES = "/overrides"
IN_OVERRIDES = re.compile(r"(?P<pointer>/\w[\w/]*) in overrides")
IN_ENV = re.compile(
    r"\b(?P<name>[A-Za-z_]\w*)(?P<why> (?:is not set|is taken from)\b[^;]*); give it in env\b"
)
SCRIPT_ARGUMENTS = re.compile(r"give the arguments of the script in argv, \[\] for")


def asked_for(message: str) -> Iterator[str]:
    """Pointers into a launch to what a message asks for; any one of them settles it. What has a
    cause comes first: a variable before a field that it decides.
    """
    for variable in IN_ENV.finditer(message):
        yield f"/env/{variable['name']}"
    if SCRIPT_ARGUMENTS.search(message):
        yield ARGUMENTS
    for field in IN_OVERRIDES.finditer(message):
        yield OVERRIDES + field["pointer"]


def not_read(key: str) -> str:
    """Why a file is not read that nothing names."""
    return f"nothing names this file, so it is not read; name it as {key}, or do not send it"


def not_sent(path: str, unknown: str | None) -> str:
    """That a file is named which was not sent, and what tells its name where that is open."""
    called = "" if unknown is None else f", and say what it is called: {unknown}"
    return f"names {path}; send that file too{called}"
