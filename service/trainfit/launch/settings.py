"""The keys that a launch sets, each with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.launch.account import where
from trainfit.launch.shell.piece import Piece


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """One key as it is written: of a file and its line, or of `argv` or `env`, without a line.

    `unknown` says why the value is not known, and what to give. `written` is what is written where
    the value is what that means; `whose` default it is where nobody wrote it. Two that say the same
    are two.
    """

    key: str
    value: Any
    file: str
    line: int | None
    unknown: str | None = None
    written: Any = None
    whose: str | None = None
    pieces: tuple[Piece, ...] = ()
    """Of a text that is known in part, its pieces."""

    @classmethod
    def of(cls, key: str, word: Piece, value: Any = None) -> Setting:
        """The setting of this key that a word gives, at the word's place."""
        given = word.text if value is None else value
        return cls(key, given, word.file, word.line, word.unknown, pieces=word.pieces)

    @property
    def where(self) -> str:
        """The place and the key, for a message."""
        return where(self.file, self.line, self.key)


def settings_of(document: Document, file: str) -> dict[str, Setting]:
    """Every leaf of a document by its dotted name; an empty object is a leaf, and so is a list."""
    value = document.value if isinstance(document.value, dict) else {}
    return {
        ".".join(path): Setting(".".join(path), leaf, file, document.line_of(json_pointer(path)))
        for path, leaf in _leaves(value, ())
    }


def leaves_of(setting: Setting) -> Iterator[Setting]:
    """The settings of all keys in one whose value is a mapping; any other is its own."""
    if not isinstance(setting.value, dict) or not setting.value:
        yield setting
        return
    for path, leaf in _leaves(setting.value, (setting.key,)):
        yield replace(setting, key=".".join(map(str, path)), value=leaf)


def _leaves(
    value: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name), inner
