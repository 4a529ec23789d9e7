"""Expansion of $X and ${X...}: defaults, lengths, parts, replacements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from trainfit.launch.commands.shell import arithmetic
from trainfit.launch.commands.shell.source import UNNAMED, text_of
from trainfit.launch.commands.shell.text import Array, Fields, NotKnownError, Text

if TYPE_CHECKING:
    from tree_sitter import Node

    from trainfit.launch.commands.shell.words import Expander, Values

MAX_MATCHED = 4096
"""Signs of a value that a pattern is matched with; paths and versions are far shorter."""

_TARGETS = ("variable_name", "special_variable_name", "subscript")
_DEFAULTS = ("-", ":-", "=", ":=", "+", ":+", "?", ":?")
_CASES: Mapping[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}


class _Parts(NamedTuple):
    """${prefix target operator rest}."""

    prefix: str
    target: Node
    operator: str
    rest: Sequence[Node]


def expanded(node: Node, shell: Expander, fields: Fields, *, quoted: bool) -> Values:
    """What an expansion stands for. A default that counts is put behind `fields` itself."""
    parts = _parts(node)
    if parts is None:
        return shell.source.unknown(UNNAMED, node, f"{text_of(node)} is not read")
    try:
        if parts.operator in _DEFAULTS and not parts.prefix:
            return _defaulted(parts, shell, fields, quoted=quoted)
        found = _looked_up(parts.target, shell)
        if parts.prefix == "#":
            return _length(parts.target, found, shell)
        if parts.prefix == "!":
            return _indirect(parts.target, found, shell)
        if found is None:
            return shell.missing(_name(parts.target), parts.target)
        if parts.operator == ":":
            return _slice(parts, found, shell)
        return _changed(parts, found, shell) if parts.operator else found
    except NotKnownError as why:
        return shell.source.unknown(text_of(node).strip(), node, str(why))


def is_joined(node: Node) -> bool:
    """Whether an expansion in quotes is one word of all items: $* and ${X[*]}."""
    parts = _parts(node)
    if parts is None:
        return False
    target = parts.target
    index = target.child_by_field_name("index") if target.type == "subscript" else target
    return index is not None and text_of(index) == "*"


def _parts(node: Node) -> _Parts | None:
    inner = [
        child
        for child in node.children
        if child.is_named or text_of(child).strip() not in ("$", "${", "}")
    ]
    places = [index for index, child in enumerate(inner) if child.type in _TARGETS]
    if not places or places[0] > 1:
        return None
    target = places[0]
    prefix = text_of(inner[0]) if target == 1 else ""
    after = inner[target + 1 :]
    if not after:
        return _Parts(prefix, inner[target], "", ())
    if after[0].is_named:
        return None
    return _Parts(prefix, inner[target], text_of(after[0]), after[1:])


def _name(target: Node) -> str:
    name = target.child_by_field_name("name") if target.type == "subscript" else target
    return text_of(name or target)


def _index(target: Node, shell: Expander) -> str | None:
    """The index of a subscript: @, * or a key; None for a plain variable. Raises NotKnownError."""
    if target.type != "subscript":
        return None
    index = target.child_by_field_name("index")
    if index is None or text_of(index) in ("@", "*"):
        return "@" if index is None else text_of(index)
    array = shell.state.get(_name(target))
    if isinstance(array, Array) and any(not key.isdecimal() for key in array.items):
        return shell.value(index).known()
    number = arithmetic.evaluate(index, shell)
    if number < 0 and isinstance(array, Array):
        number += len(array.items)
    return str(number)


def _looked_up(target: Node, shell: Expander) -> Values | None:
    """A variable as it stands, None where it is not set. Raises NotKnownError.

    An array cannot come from the environment: one that no file sets has no items.
    """
    name = _name(target)
    if target.type == "special_variable_name" and not name.isdecimal():
        return _special(name, target, shell)
    value = shell.state.get(name)
    index = _index(target, shell)
    if isinstance(value, Text):
        return value if index in (None, "0", "@", "*") else None
    if value is None:
        of_array = index in ("@", "*") and not shell.state.missing
        return () if of_array else None
    if index in ("@", "*"):
        return list(value.items.values())
    found = value.items.get(index or "0")
    if found is None and value.items:
        found = _unknown_item(value)
    return found


def _unknown_item(array: Array) -> Text | None:
    """An array that ends with what is not known may have an item at any index."""
    last = list(array.items.values())[-1]
    return last if last.unknown is not None else None


def _special(name: str, target: Node, shell: Expander) -> Values:
    if name in ("@", "*"):
        return shell.state.parameters or ()
    if name == "#":
        return shell.source.text(str(shell.state.count()), target)
    raise NotKnownError(f"${name} is known only while the script runs")


def _defaulted(parts: _Parts, shell: Expander, fields: Fields, *, quoted: bool) -> Values:
    """${X:-default} and the like; without the colon, an empty value counts as set."""
    found = _looked_up(parts.target, shell)
    kind, empty_counts = parts.operator[-1], len(parts.operator) == 1
    is_set = found is not None and (empty_counts or not _is_empty(found))
    if kind == "+":
        if is_set:
            shell.between(parts.rest, fields, quoted=quoted)
        return ()
    if is_set and found is not None:
        return found
    if kind == "?":
        return shell.missing(_name(parts.target), parts.target)
    inner = Fields()
    shell.between(parts.rest, inner, quoted=quoted)
    words = inner.words()
    if kind == "=" and words:
        shell.state.set(_name(parts.target), _with_blanks(words, parts.target, shell))
    return words


def _with_blanks(words: Sequence[Text], node: Node, shell: Expander) -> Text:
    blank = shell.source.text(" ", node)
    pieces = list(words[0].pieces)
    for word in words[1:]:
        pieces += [*blank.pieces, *word.pieces]
    return Text(tuple(pieces))


def _is_empty(values: Values) -> bool:
    return str(values) == "" if isinstance(values, Text) else not values


def _length(target: Node, found: Values | None, shell: Expander) -> Text:
    if found is None:
        raise NotKnownError(shell.state.unset(_name(target)))
    if isinstance(found, Text):
        length = len(found.known())
    else:
        length = len([text.known() for text in found])
    return shell.source.text(str(length), target)


def _indirect(target: Node, found: Values | None, shell: Expander) -> Values:
    """${!X}: the variable that X names; ${!X[@]}: the keys of an array."""
    if target.type == "subscript":
        value = shell.state.get(_name(target))
        keys = value.items if isinstance(value, Array) else ()
        return [shell.source.text(key, target) for key in keys]
    if not isinstance(found, Text):
        raise NotKnownError(shell.state.unset(_name(target)))
    return shell.variable(found.known(), target)


def _slice(parts: _Parts, found: Values, shell: Expander) -> Values:
    """${X:start:length}."""
    numbers = [arithmetic.evaluate(node, shell) for node in parts.rest if node.is_named]
    if not numbers or not parts.rest[0].is_named:
        numbers.insert(0, 0)
    if isinstance(found, Text):
        known = found.known()
        return shell.source.text(known[_range(len(known), numbers)], parts.target)
    if text_of(parts.target) in ("@", "*"):
        numbers[0] = max(numbers[0] - 1, 0)
    return found[_range(len(found), numbers)]


def _range(length: int, numbers: Sequence[int]) -> slice:
    start = numbers[0] if numbers[0] >= 0 else max(length + numbers[0], 0)
    if len(numbers) == 1:
        return slice(start, length)
    end = start + numbers[1] if numbers[1] >= 0 else length + numbers[1]
    return slice(start, end)


def _changed(parts: _Parts, found: Values, shell: Expander) -> Values:
    """${X%suffix}, ${X#prefix}, ${X/from/to}, ${X^^} of a text or of every item."""
    texts = [found] if isinstance(found, Text) else found
    change = _change(parts, shell)
    changed = [shell.source.text(change(text.known()), parts.target) for text in texts]
    return changed[0] if isinstance(found, Text) else changed


def _change(parts: _Parts, shell: Expander) -> Callable[[str], str]:
    operator = parts.operator
    if operator in _CASES and not parts.rest:
        return _CASES[operator]
    slash = next((at for at, node in enumerate(parts.rest) if not node.is_named), len(parts.rest))
    pattern = "".join(shell.pattern(node) for node in parts.rest[:slash])
    if operator in ("%", "%%"):
        return lambda text: _cut(text, pattern, longest=operator == "%%", suffix=True)
    if operator in ("#", "##"):
        return lambda text: _cut(text, pattern, longest=operator == "##", suffix=False)
    if operator in ("/", "//"):
        to = "".join(shell.value(node).known() for node in parts.rest[slash + 1 :])
        return lambda text: _replaced(text, pattern, to, every=operator == "//")
    raise NotKnownError(f"the expansion with {operator} is not read")


def _cut(text: str, pattern: str, *, longest: bool, suffix: bool) -> str:
    """A text without the part at one end that matches."""
    _check_length(text)
    sizes = range(len(text) + 1)
    for size in sorted(sizes, reverse=longest):
        matched = text[len(text) - size :] if suffix else text[:size]
        if fnmatchcase(matched, pattern):
            return text[: len(text) - size] if suffix else text[size:]
    return text


def _replaced(text: str, pattern: str, to: str, *, every: bool) -> str:
    if any(sign in pattern for sign in "*?["):
        raise NotKnownError("a replacement by a pattern is not read")
    _check_length(text)
    return text.replace(pattern, to, -1 if every else 1) if pattern else text


def _check_length(text: str) -> None:
    if len(text) > MAX_MATCHED:
        raise NotKnownError("a value this long is not matched with a pattern")
