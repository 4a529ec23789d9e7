"""TOML as plain data, with the lines of its tables and keys."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from trainfit.documents.bounds import (
    MAX_DEPTH,
    MAX_VALUES,
    FileError,
    too_deep,
    too_many_values,
)
from trainfit.documents.json_pointer import json_pointer

_KEY = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNED = re.compile(rf"\s*({_DOTTED})\s*=")
_TOO_DEEP = re.compile(rf"(?<![\w.-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{MAX_DEPTH}}}")
"""A key of more parts than there may be levels, for which the parser takes their square."""


def parse_toml(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The value of a text, and the line of each of its parts by JSON Pointer. Raises FileError."""
    if deep := _TOO_DEEP.search(text):
        raise too_deep(text.count("\n", 0, deep.start()) + 1)
    if text.count("=") + text.count(",") > MAX_VALUES:
        raise too_many_values()
    try:
        return tomllib.loads(text), _lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise FileError(str(error), int(found[1]) if found else 1) from None


def _lines(text: str) -> dict[str, int]:
    """The lines of tables and of keys that begin a line."""
    lines = {"": 1}
    latest: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _TABLE.match(line):
            table = _table(re.findall(_KEY, header[2]), header[1] == "[[", latest)
            lines.setdefault(table, number)
        elif key := _ASSIGNED.match(line):
            pointer = table
            for part in re.findall(_KEY, key[1]):
                pointer += json_pointer([part.strip("\"'")])
                lines.setdefault(pointer, number)
    return lines


def _table(parts: list[str], array: bool, latest: dict[str, int]) -> str:
    """The pointer of a table; `latest` counts the tables of each array so far."""
    pointer = ""
    for depth, part in enumerate(parts, 1):
        pointer += json_pointer([part.strip("\"'")])
        if array and depth == len(parts):
            latest[pointer] = latest.get(pointer, -1) + 1
        if pointer in latest:
            pointer += f"/{latest[pointer]}"
    return pointer
