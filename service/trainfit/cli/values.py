"""The values of flags as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cyclopts import Token, convert

from trainfit.cli.errors import RefusedCommandError

NUMBER = re.compile(r"(?P<digits>-?\d[\d_]*)(?:[eE](?P<zeros>\d{1,2}))?(?P<unit>[kKmM]?)")
UNITS = {"": 1, "k": 1024, "m": 1024**2}
Entry = TypeVar("Entry")


def number_of(flag: str, *, length: bool) -> Callable[..., int]:
    """What reads the whole number of a flag: 4096, 5e8, and of a length 4k as well.

    What it makes raises RefusedCommandError for anything else.
    """
    example = f"{flag} 4096 or {flag} 4k" if length else f"{flag} 8"

    def converter(_: Any, tokens: Sequence[Token]) -> int:
        text = tokens[0].value
        found = NUMBER.fullmatch(text)
        if found is None or (found["unit"] and not length):
            several = "one number; `trainfit compare` puts jobs side by side" if "," in text else ""
            words = f"{text} is no whole number; use {several or f'one, as in {example}'}"
            raise RefusedCommandError(f"trainfit: {flag}: {words}")
        digits = found["digits"] + "0" * int(found["zeros"] or 0)
        return int(digits) * UNITS[found["unit"].lower()]

    return converter


def list_of(kind: Any, tokens: Sequence[Token]) -> Any:
    """Values apart by spaces, by commas, or by both."""
    parts = [
        token.evolve(value=part)
        for token in tokens
        for part in token.value.split(",")
        if part or token.value == ""
    ]
    return convert(kind, parts)


def having(
    words: Sequence[str], entries: Iterable[Entry], names: Callable[[Entry], str]
) -> list[Entry]:
    """The entries whose names have all of these words, however they are written. Raises
    RefusedCommandError where none has.
    """
    found = [each for each in entries if all(word.lower() in names(each).lower() for word in words)]
    if not found:
        raise RefusedCommandError(f"trainfit: none is called {' '.join(words)}")
    return found
