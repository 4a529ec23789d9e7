"""What is cached: which commit a revision named, and the config.json of a commit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Literal, NamedTuple

PUBLIC = ""
"""The scope of what the Hub shows to anyone."""

MAIN = "main"

CLOCK_SECONDS = 3600.0
"""By how much the clock of another machine may be ahead."""

Layer = Literal["memory", "disk", "shared", "huggingface", "hub"]
"""Where a model was found: nearest first, the Hub itself last."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(revision: str) -> bool:
    """Whether a revision can name nothing but one commit."""
    return _COMMIT.fullmatch(revision) is not None


class ConfigKey(NamedTuple):
    """What is asked for. `scope` is PUBLIC, or stands for the token that showed it."""

    repo: str
    revision: str
    scope: str = PUBLIC


@dataclass(frozen=True, slots=True)
class Ref:
    """The commit that a revision named when the Hub last said so, at `checked_at` seconds since
    the epoch, and the Hub's own spelling of the repository.
    """

    name: str
    commit: str
    checked_at: float


def stored_ref(name: object, commit: object, checked_at: object) -> Ref | None:
    """A ref as a store kept it; None where it is none that this program writes: not every commit
    is one, and a time may be text, no number, or so late that it would never be over.
    """
    if not (isinstance(name, str) and isinstance(commit, str) and is_commit(commit)):
        return None
    if not isinstance(checked_at, int | float) or isinstance(checked_at, bool):
        return None
    if not 0 <= checked_at <= time() + CLOCK_SECONDS:
        return None
    return Ref(name, commit, float(checked_at))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HubConfig:
    """A config.json. It is one object for as long as it is in memory, so that what is made of it
    can be kept with it. `size` is about what it takes of memory in bytes.
    """

    values: Mapping[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store holds for a key: the file as it was fetched."""

    ref: Ref
    body: bytes
    layer: Layer


@dataclass(frozen=True, slots=True)
class Found:
    """A model that was found. `stale`: nobody has confirmed lately that its revision still names
    this commit.
    """

    ref: Ref
    config: HubConfig
    stale: bool
