"""Lists of the keys of a format, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Names:
    """Names of keys; one that ends in a dot stands for every key below it."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        if name in self.names:
            return True
        path = str(name).split(".")
        return any(".".join(path[:depth]) + "." in self.names for depth in range(1, len(path) + 1))

    def __or__(self, other: Names) -> Names:
        return Names(self.names | other.names)


def names(text: str) -> Names:
    """The words of a text."""
    return Names(frozenset(text.split()))


@dataclass(frozen=True, slots=True)
class Keys:
    """What is known of the keys of a format that no field of a job is read from.

    `without_effect` has the values at which a key changes nothing.
    """

    irrelevant: Names
    without_effect: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)

    def why(self, name: str) -> str | None:
        """Why a key is not read. A reason whose name ends in a dot is that of every key below, and
        one whose name ends in a star of every key that begins so.
        """
        path = name.split(".")
        below = (".".join(path[:depth]) + "." for depth in range(len(path), 0, -1))
        stars = (name[:length] + "*" for length in range(len(name), 0, -1))
        known = (self.unsupported.get(each) for each in (name, *below, *stars))
        return next((why for why in known if why is not None), None)

    def __or__(self, other: Keys) -> Keys:
        return Keys(
            self.irrelevant | other.irrelevant,
            {**self.without_effect, **other.without_effect},
            {**self.unsupported, **other.unsupported},
        )
