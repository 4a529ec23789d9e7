"""What is cached: which commit a revision named, and the config.json of a commit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

PUBLIC = ""
"""The scope of what the Hub shows to anyone."""

MAIN = "main"

Layer = Literal["memory", "disk", "shared", "huggingface", "hub"]
"""Where a model was found: nearest first, the Hub itself last."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(revision: str) -> bool:
    """Whether a revision can name nothing but one commit."""
    return _COMMIT.fullmatch(revision) is not None


class Key(NamedTuple):
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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HubConfig:
    """A config.json. It is one object for as long as it is in memory, so that what is made of it
    can be kept with it. `size` is that of the file in bytes.
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
