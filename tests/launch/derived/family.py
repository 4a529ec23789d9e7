"""Launches in which one thing is said otherwise, and what becomes of each by a program's source.

A family is a launch that a program takes, and rows over it. What a row says stands behind the
command, or at keys of the config. What follows from it is derived by hand from the source that the
family names: the fields of the job that are others then, and no more; or that the account tells of
a key; or that the launch is refused.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import yaml

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import Launch

Fields = Mapping[str, Any]
Keys = Mapping[str, str]
"""Keys of a config, dotted, and what is written there; an empty text takes a key away."""


class LeftOut(NamedTuple):
    """The account tells that this key is not modelled, whatever else changes."""

    key: str


class Refused(NamedTuple):
    """The launch is refused in words that have these among them."""

    words: str


class Said(NamedTuple):
    """What is said otherwise, behind the command and in the config."""

    words: str = ""
    keys: tuple[tuple[str, str], ...] = ()


def said(words: str = "", **keys: str) -> Said:
    """Words behind the command, and keys of the config with __ in the place of each dot."""
    return Said(words, tuple((key.replace("__", "."), text) for key, text in keys.items()))


Expected = Fields | LeftOut | Refused
Rows = Mapping[str | Said, Expected]


@dataclass(frozen=True)
class Family:
    """A launch of a program and rows over it; `source` is what they were derived from.

    `config` is what stands in the file `path`, by dotted keys; `files` are others, and `given` is
    what is sent beside files and command.
    """

    source: str
    rows: Rows
    command: str = ""
    path: str = "config.yaml"
    config: Keys = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)

    def launch(self, otherwise: Said) -> Launch:
        """The launch with what a row says."""
        files = dict(self.files)
        if self.config:
            files[self.path] = self.written(otherwise.keys)
        words = [*self.command.split(), *shlex.split(otherwise.words)] if self.command else None
        return launch_of(files, words, **self.given)

    def written(self, keys: tuple[tuple[str, str], ...]) -> str:
        """The config with other texts at these keys."""
        texts = {key: text for key, text in {**self.config, **dict(keys)}.items() if text != ""}
        suffix = PurePosixPath(self.path).suffix
        if suffix == ".toml":
            return "".join(f"{key} = {text}\n" for key, text in texts.items())
        lines = "".join(_lines(_nested(texts), 0))
        return json.dumps(yaml.safe_load(lines)) if suffix == ".json" else lines

    def wrong(self) -> list[str]:
        """What is read of its rows otherwise than was derived, each in words."""
        base = read(self.launch(Said()))
        found = []
        for row, expected in self.rows.items():
            otherwise = Said(row) if isinstance(row, str) else row
            difference = _difference(base, self.launch(otherwise), expected)
            if difference:
                found.append(f"{row!r}: {difference}")
        return found


def _nested(texts: Keys) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, text in texts.items():
        *sections, last = key.split(".")
        inner = made
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = text
    return made


def _lines(nested: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, inner in nested.items():
        if isinstance(inner, dict):
            yield f"{'  ' * depth}{key}:\n"
            yield from _lines(inner, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {inner}\n"


def _difference(base: Read, launch: Launch, expected: Expected) -> str:
    """Empty where what is read of the launch is what was derived."""
    try:
        found = read(launch)
    except LaunchError as error:
        refused = isinstance(expected, Refused) and expected.words in str(error)
        return "" if refused else f"is refused: {error}"
    if isinstance(expected, Refused):
        return f"is not refused: {changes(base, found)}"
    if isinstance(expected, LeftOut):
        return "" if expected.key in found.left_out else f"{expected.key} is not left out"
    changed = changes(base, found)
    if changed != dict(expected):
        return f"changes {changed}, not {dict(expected)}"
    new = found.left_out - base.left_out
    return f"leaves out {', '.join(sorted(new))}" if new else ""


def changes(base: Read, found: Read) -> dict[str, Any]:
    """The fields that are others than they were; None where one is gone."""
    before, after = dict(_leaves(base.job, "")), dict(_leaves(found.job, ""))
    every = dict.fromkeys((*before, *after))
    return {name: after.get(name) for name in every if before.get(name) != after.get(name)}


def _leaves(part: Mapping[str, Any], pointer: str) -> Iterator[tuple[str, Any]]:
    for name, value in part.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{pointer}/{name}")
        else:
            yield f"{pointer}/{name}", value
