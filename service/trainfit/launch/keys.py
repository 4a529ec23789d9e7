"""What is known of the keys of a format that no field of a job is read from, as data.

A table is a list of rows in the `keys.json` of a format. A row names keys, in lines of words, and
their `effect` on memory: "none", or "unmodelled" but at the values in `unless`; `note` says why. A
name that ends in a dot stands for that key and every key below it, one that ends in a star for
every key that begins so; of several the longest counts, and a dot before a star.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Effect = Literal["none", "unmodelled"]
UNKNOWN = "no list of this format has this key"


@dataclass(frozen=True, slots=True)
class Row:
    """The effect of a key; `unless` are values at which it has none."""

    effect: Effect
    unless: Sequence[Any] = ()
    note: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class Keys:
    """A table of keys by their names."""

    rows: Mapping[str, Row]

    def why_not(self, name: str, value: Any) -> str | None:
        """Why a key at this value is not read; None where it changes nothing."""
        row = next((self.rows[each] for each in _names_of(name) if each in self.rows), None)
        if row is None:
            return UNKNOWN
        return None if row.effect == "none" or value in row.unless else row.note

    def __or__(self, other: Keys) -> Keys:
        """Both; of a key in both the other's row counts."""
        return Keys({**self.rows, **other.rows})


@cache
def table_of(package: str, table: str = "keys") -> Keys:
    """A table of the `keys.json` in a package. Raises ValueError for a key that is there twice."""
    tables = json.loads((files(package) / "keys.json").read_text("utf-8"))
    rows: dict[str, Row] = {}
    for name, row in _read(tables[table]):
        if name in rows:
            raise ValueError(f"{package}: {table} has {name} twice")
        rows[name] = row
    return Keys(rows)


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in its order."""
    return tuple(text.split())


def _read(table: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Row]]:
    for entry in table:
        row = Row(entry["effect"], entry.get("unless", ()), entry.get("note", UNKNOWN))
        for line in entry["keys"]:
            for name in line.split():
                yield name, row


def _names_of(name: str) -> Iterator[str]:
    """The names under which a key may stand, the one that counts before others first."""
    yield name
    path = name.split(".")
    for depth in range(len(path), 0, -1):
        yield ".".join(path[:depth]) + "."
    for length in range(len(name), 0, -1):
        yield name[:length] + "*"
