"""YAML as plain data: no key twice in one mapping, and no more of it than the bounds allow.

libyaml parses, some twenty times as fast as Python would. What a text stands for is known in two
steps before anything is made of it: its events, one by one, tell its depth and its length, and its
nodes how much aliases and merge keys repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from yaml import (
    CollectionEndEvent,
    CollectionStartEvent,
    CSafeLoader,
    Event,
    MappingNode,
    Node,
    NodeEvent,
    ScalarNode,
    parse,
)
from yaml.constructor import ConstructorError

from trainfit.documents.bounds import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NUMBER_LENGTH,
    MAX_VALUES,
    TooLargeError,
    too_deep,
    too_long,
    too_many_values,
)


def documents_in(text: str) -> Iterator[tuple[Any, Node]]:
    """The value of each document of a text and the node that it was made of.

    Raises TooLargeError before it makes anything of what is too large, and YAMLError.
    """
    check_events(text)
    loader = _StrictLoader(text)
    while loader.check_node():
        node: Node = loader.get_node()  # type: ignore[assignment]  # check_node says there is one
        _Measured().size_of(node)
        yield loader.construct_document(node), node


class _StrictLoader(CSafeLoader):
    """libyaml's safe loader. A key that a mapping has twice is an error, and so is a number that
    no one writes.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flattened: set[int] = set()

    def flatten_mapping(self, node: MappingNode) -> None:
        """Check what was written, then put in what `<<` merges, which may be overridden."""
        if id(node) not in self._flattened:
            self._flattened.add(id(node))
            _refuse_twice(node)
        super().flatten_mapping(node)

    def construct_number(self, node: ScalarNode) -> Any:
        """A number of YAML 1.1, which may be written to the base of sixty."""
        if len(node.value) > MAX_NUMBER_LENGTH:
            words = f"a number has more than {MAX_NUMBER_LENGTH} characters; quote it if it is text"
            raise ConstructorError(None, None, words, node.start_mark)
        if node.tag == INT:
            return self.construct_yaml_int(node)
        return self.construct_yaml_float(node)


INT, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
for _tag in (INT, FLOAT):
    _StrictLoader.add_constructor(_tag, _StrictLoader.construct_number)


def check_events(text: str) -> None:
    """Raises TooLargeError for a text with too many values or levels, and YAMLError."""
    levels = values = 0
    for event in parse(text, CSafeLoader):
        if isinstance(event, CollectionStartEvent):
            levels += 1
        elif isinstance(event, CollectionEndEvent):
            levels -= 1
        values += isinstance(event, NodeEvent)
        _check_size(NodeSize(values, 0, levels), _line(event))


class NodeSize(NamedTuple):
    """How much a node stands for, with all that aliases in it mean."""

    values: int
    characters: int
    levels: int


class _Measured:
    """The sizes of nodes. What an alias means counts wherever the alias stands."""

    def __init__(self) -> None:
        self._sizes: dict[int, NodeSize | None] = {}

    def size_of(self, node: Node) -> NodeSize:
        """The size of a node. Raises TooLargeError.

        An anchor stands before its aliases, so what they mean is measured already, unless they
        stand within it.
        """
        line = _line(node)
        if id(node) in self._sizes:
            known = self._sizes[id(node)]
            if known is None:
                raise TooLargeError("an alias stands within what it names", line)
            return known
        self._sizes[id(node)] = None
        size = self._sizes[id(node)] = self._measured(node)
        _check_size(size, line)
        return size

    def _measured(self, node: Node) -> NodeSize:
        if isinstance(node, ScalarNode):
            return NodeSize(1, len(node.value), 0)
        inner = [self.size_of(each) for each in _inner(node)]
        return NodeSize(
            values=1 + sum(each.values for each in inner),
            characters=sum(each.characters for each in inner),
            levels=1 + max((each.levels for each in inner), default=0),
        )


def _check_size(size: NodeSize, line: int) -> None:
    if size.levels > MAX_DEPTH:
        raise too_deep(line)
    if size.values > MAX_VALUES:
        raise too_many_values(line)
    if size.characters > MAX_CHARACTERS:
        raise too_long(line)


def _line(part: Node | Event) -> int:
    """The line on which it begins, from 1."""
    return part.start_mark.line + 1 if part.start_mark else 1


def _inner(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [each for pair in node.value for each in pair]
    return list(node.value)


def _refuse_twice(node: MappingNode) -> None:
    seen: set[object] = set()
    for key, _ in node.value:
        if isinstance(key.value, str):
            if key.value in seen:
                raise ConstructorError(
                    None, None, f"{key.value!r} is given twice in one mapping", key.start_mark
                )
            seen.add(key.value)
