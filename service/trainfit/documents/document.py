"""Texts in JSON, YAML and TOML as values that JSON can carry, with the line of every part."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Never

from trainfit.documents.json_pointer import json_pointer

if TYPE_CHECKING:
    from yaml import Node

MAX_VALUES = 100_000
"""More than any file of jobs has; YAML's aliases can stand for far more than a file's length."""


class FileError(ValueError):
    """A file that cannot be read; `line` counts from 1."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """One value of a file. `lines` has the line of each part by its JSON Pointer, where known."""

    value: Any
    lines: Mapping[str, int]

    def line_of(self, pointer: str) -> int:
        """The line of this part, or of the nearest around it."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer, 1)


def parse_documents(suffix: str, text: str) -> list[Document]:
    """Every document of a file of this suffix: several in YAML, otherwise one. Raises FileError."""
    with told_as_file_errors():
        documents = list(_parse(suffix, text))
        for document in documents:
            _check(document)
    return documents


@contextmanager
def told_as_file_errors() -> Iterator[None]:
    """Tell what a parser raises as a FileError, with the line where that is known."""
    try:
        yield
    except RecursionError:
        raise FileError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise FileError(str(error), error.lineno) from None
    except FileError:
        raise
    except ValueError as error:  # a number or a date that Python cannot make
        raise FileError(str(error)) from None


def _parse(suffix: str, text: str) -> Iterator[Document]:
    match suffix:
        case ".json":
            yield _json(text)
        case ".toml":
            yield _toml(text)
        case _:
            yield from _yaml(text)


def _json(text: str) -> Document:
    value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    return Document(value, _json_lines(text))


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in members:
        if name in values:
            raise FileError(f"{name!r} is given twice in one object")
        values[name] = value
    return values


def _refuse(constant: str) -> Never:
    raise FileError(f"{constant} is not a JSON number")


def _json_lines(text: str) -> dict[str, int]:
    """JSON is YAML but for a few characters; with one of those, no lines are known."""
    import yaml

    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return {}
    return _lines(node)


def _yaml(text: str) -> Iterator[Document]:
    import yaml

    from trainfit.documents.strict_loader import StrictLoader

    try:
        loader = StrictLoader(text)
        while loader.check_node():
            node = loader.get_node()
            value = loader.construct_document(node)
            yield Document(value, _lines(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(filter(None, (error.context, error.problem)))
        raise FileError(words, mark.line + 1 if mark else 1) from None
    except yaml.YAMLError as error:
        raise FileError(str(error)) from None


def _lines(node: Node | None) -> dict[str, int]:
    """The lines of a document, of no more of its parts than a document may have."""
    if node is None:
        return {}
    return {"": node.start_mark.line + 1, **dict(islice(_marks(node, ""), MAX_VALUES))}


def _marks(node: Node, pointer: str) -> Iterator[tuple[str, int]]:
    """The line of every key and of every item below a node."""
    from yaml import MappingNode, SequenceNode

    parts: list[tuple[Any, Node, Node]] = []
    if isinstance(node, MappingNode):
        parts = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, SequenceNode):
        parts = [(index, item, item) for index, item in enumerate(node.value)]
    for name, marked, inner in parts:
        below = f"{pointer}{json_pointer([name])}"
        yield below, marked.start_mark.line + 1
        yield from _marks(inner, below)


_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TOML_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_TOML_KEY = re.compile(rf"\s*({_DOTTED})\s*=")


def _toml(text: str) -> Document:
    import tomllib

    try:
        return Document(tomllib.loads(text), _toml_lines(text))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise FileError(str(error), int(found[1]) if found else 1) from None


def _toml_lines(text: str) -> dict[str, int]:
    """The lines of tables and of keys that begin a line."""
    lines = {"": 1}
    latest: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.split("\n"), 1):
        if header := _TOML_TABLE.match(line):
            table = _table(re.findall(_KEY, header[2]), header[1] == "[[", latest)
            lines.setdefault(table, number)
        elif key := _TOML_KEY.match(line):
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


def _check(document: Document) -> None:
    """Refuse what JSON cannot carry, and more than anyone writes."""
    for count, (pointer, value) in enumerate(_values(document.value, "")):
        if count > MAX_VALUES:
            raise FileError(f"has more than {MAX_VALUES} values")
        if not _is_json(value):
            words = f"{pointer}: {value!r} is not a value of JSON; quote it if it is text"
            raise FileError(words, document.line_of(pointer))


def _is_json(value: Any) -> bool:
    match value:
        case str():
            return not any("\ud800" <= sign <= "\udfff" for sign in value)
        case float():
            return math.isfinite(value)
        case _:
            return isinstance(value, dict | list | int | None)


def _values(value: Any, pointer: str) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str) or not _is_json(name):
                raise FileError(
                    f"{pointer or 'the top level'}: the name {name!r} is not text; quote it"
                )
            yield from _values(inner, f"{pointer}{json_pointer([name])}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _values(inner, f"{pointer}/{index}")
