"""What is known of the keys of a format that no field of a job is read from, as data.

A table is a list of rows in the `keys.json` of a format. A row names keys, in lines of words, and
their `effect` on the peak of memory: "none", or but at the values in `unless` "lowers", "raises" or
"either", and "unmodelled" where nobody says which. `note` says why, and `source` who does. `within`
are fields of a job that move the peak as far as the key can, `bytes` is the most that it moves it:
without them only the direction is known.

A name that ends in a dot stands for that key and every key below it, one that ends in a star for
every key that begins so; of several the longest counts, and a dot before a star.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from trainfit.launch.effects import Effect

NONE, UNMODELLED = "none", "unmodelled"
UNKNOWN = "no list of this format has this key"
LONGEST = 128
"""Signs that a name of a table has at most."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """The effect of a key, None where it has none; `unless` are values at which it has none."""

    effect: Effect | None
    unless: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Keys:
    """A table of keys by their names."""

    rows: Mapping[str, KeyRow]

    def effect_of(self, name: str, value: Any) -> Effect | None:
        """What a key that is not read does at this value; None where it changes nothing."""
        row = next((self.rows[each] for each in _names_of(name) if each in self.rows), None)
        if row is None:
            return Effect(UNKNOWN)
        return None if value in row.unless else row.effect

    def __or__(self, other: Keys) -> Keys:
        """Both; of a key in both the other's row counts."""
        return Keys({**self.rows, **other.rows})


@cache
def table_of(package: str, table: str = "keys") -> Keys:
    """A table of the `keys.json` in a package. Raises ValueError for a key that is there twice, or
    longer than any.
    """
    tables = json.loads((files(package) / "keys.json").read_text("utf-8"))
    rows: dict[str, KeyRow] = {}
    for name, row in _read(tables[table]):
        if name in rows:
            raise ValueError(f"{package}: {table} has {name} twice")
        rows[name] = row
    return Keys(rows)


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in its order."""
    return tuple(text.split())


def _read(table: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, KeyRow]]:
    for entry in table:
        row = KeyRow(_effect(entry), entry.get("unless", ()))
        for line in entry["keys"]:
            for name in line.split():
                if len(name) > LONGEST:
                    raise ValueError(f"{name} is longer than names of a table are")
                yield name, row


def _effect(entry: Mapping[str, Any]) -> Effect | None:
    if entry["effect"] == NONE:
        return None
    return Effect(
        why=entry.get("note", UNKNOWN),
        direction="either" if entry["effect"] == UNMODELLED else entry["effect"],
        source=entry.get("source"),
        within=entry.get("within", {}),
        bytes=entry.get("bytes", 0),
    )


def _names_of(name: str) -> Iterator[str]:
    """The names under which a key may stand, the one that counts before others first."""
    yield name
    head = f"{name}."[:LONGEST]
    end = head.rfind(".")
    while end >= 0:
        yield head[: end + 1]
        end = head.rfind(".", 0, end)
    for length in range(min(len(name), LONGEST), 0, -1):
        yield name[:length] + "*"
