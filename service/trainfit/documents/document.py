"""Texts in JSON, YAML and TOML as values that JSON can carry, with the line of every part."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Never

from trainfit.documents.bounds import (
    MAX_DEPTH,
    MAX_VALUES,
    FileError,
    too_deep,
    too_many_values,
)
from trainfit.documents.json_pointer import json_pointer

if TYPE_CHECKING:
    from yaml import Node

__all__ = ["Document", "FileError", "parse_documents", "raised_as_file_errors"]


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
    with raised_as_file_errors():
        documents = list(_parse(suffix, text))
        for document in documents:
            _check(document)
    return documents


@contextmanager
def raised_as_file_errors() -> Iterator[None]:
    """Tell what a parser raises as a FileError, with the line where that is known."""
    try:
        yield
    except RecursionError:
        raise FileError(str(too_deep())) from None
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
            from trainfit.documents.toml_text import parse_toml

            yield Document(*parse_toml(text))
        case _:
            yield from _yaml(text)


def _json(text: str) -> Document:
    if text.count(",") >= MAX_VALUES:
        raise too_many_values()
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

    from trainfit.documents.strict_loader import check_events

    try:
        check_events(text)
        node = yaml.compose(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return {}
    return _lines(node)


def _yaml(text: str) -> Iterator[Document]:
    import yaml

    from trainfit.documents.strict_loader import documents_in

    try:
        for value, node in documents_in(text):
            yield Document(value, _lines(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(filter(None, (error.context, error.problem)))
        lines = text.count("\n") + 1  # the mark of an end stands behind the last
        raise FileError(words, min(mark.line + 1, lines) if mark else 1) from None
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


def _check(document: Document) -> None:
    """Refuse what JSON cannot carry, and more than anyone writes."""
    for count, (pointer, value) in enumerate(_values(document.value, "")):
        if count > MAX_VALUES:
            raise too_many_values()
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


def _values(value: Any, pointer: str, level: int = 0) -> Iterator[tuple[str, Any]]:
    if level > MAX_DEPTH:
        raise too_deep()
    yield pointer, value
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str) or not _is_json(name):
                raise FileError(
                    f"{pointer or 'the top level'}: the name {name!r} is not text; quote it"
                )
            yield from _values(inner, f"{pointer}{json_pointer([name])}", level + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _values(inner, f"{pointer}/{index}", level + 1)
