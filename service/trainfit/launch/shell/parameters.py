"""Expansion of $X and ${X...}: defaults, lengths, parts, replacements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainfit.launch.shell import patterns
from trainfit.launch.shell.fields import Fields
from trainfit.launch.shell.state import DYNAMIC, LIVE, Value
from trainfit.launch.shell.syntax import Literal, Parameter, Part, Quoted, Word
from trainfit.launch.shell.text import Array, NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.expansion import Expander

Values = Text | Sequence[Text]
"""What an expansion stands for: one text, or the items of an array, each a word in quotes."""

_DEFAULTS = frozenset(("-", ":-", "=", ":=", "+", ":+", "?", ":?"))
_SPECIAL = frozenset("@*#?$!-")
_REFERENCE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(@|\*|\d+)\])?|\d+|[@*#]")
_CASES: Mapping[str, Callable[[str], str]] = {
    "^": str.upper,
    ",": str.lower,
    "U": str.upper,
    "L": str.lower,
}


def expanded(part: Parameter, shell: Expander, fields: Fields, *, quoted: bool) -> Values | None:
    """What an expansion stands for; None where it is put behind `fields` already.

    Raises NotKnownError.
    """
    if part.operator == "bad":
        shell.shell.refused(part.place, f"{part.written} is no expansion")
    if part.operator == "names":
        raise NotKnownError(f"which variables {part.written} finds is known only when it runs")
    if part.prefix == "!":
        return _indirect(part, shell, fields, quoted=quoted)
    return _expanded(part, shell, fields, quoted=quoted)


def _expanded(part: Parameter, shell: Expander, fields: Fields, *, quoted: bool) -> Values | None:
    if part.prefix == "#" and is_all(part):
        return _count(part, shell)
    found = looked_up(part, shell)
    if part.operator in _DEFAULTS:
        return _defaulted(part, found, shell, fields, quoted=quoted)
    if part.prefix == "#":
        return _length(part, found, shell)
    if found is None and isinstance(shell.state.get(part.name), Array):
        if shell.state.on("nounset"):
            shell.shell.ends(part.place, f"{part.written} is not set, and set -u is on")
        found = Text.at(part.place, "")
    if found is None:
        found = shell.missing(part.name, part.place)
        if part.operator == ":" and found.unknown is None:
            return found  # bash looks at neither start nor length
    if isinstance(found, Text) and found.spreads and shell.state.on("nounset"):
        shell.shell.supposed(part.place)
    if part.operator == ":":
        return _slice(part, found, shell)
    return _changed(part, found, shell) if part.operator else found


def is_joined(part: Parameter) -> bool:
    """Whether an expansion in quotes is one word of all items: $* and ${X[*]}."""
    return (part.name if part.index is None else part.index.bare) == "*"


def is_all(part: Parameter) -> bool:
    """Whether an expansion is of all items: $@, $*, ${X[@]}, ${X[*]}."""
    return (part.name if part.index is None else part.index.bare) in ("@", "*")


def looked_up(part: Parameter, shell: Expander) -> Values | None:
    """A variable as it stands, None where it is not set. Raises NotKnownError.

    An array cannot come from the environment: one that no file sets has no items.
    """
    if part.name in _SPECIAL:
        return _special(part, shell)
    if part.name in DYNAMIC:
        raise NotKnownError(f"${part.name} is known only while the script runs")
    value = shell.state.get(part.name)
    if part.index is None:
        return value.item("0") if isinstance(value, Array) else value
    if is_all(part):
        if isinstance(value, Array):
            return value.listed()
        if value is None:
            if shell.state.missing and part.name not in shell.state.variables:
                return None
            return ()
        return [value]
    index = subscript(part.name, part.index, shell, reads=True)
    if index.startswith("-") and (part.prefix or part.operator):
        raise NotKnownError(f"{part.written} is before the first item")
    if isinstance(value, Array):
        return value.item(index)
    if value is not None and value.spreads:
        value.known()
    return value if index == "0" else None


def subscript(name: str, index: Word, shell: Expander, *, reads: bool = False) -> str:
    """The index of an item, as an array keeps it; where it is only read, one before the first is
    one that is not set. Raises NotKnownError.
    """
    variable = shell.state.variables.get(name)
    text = shell.value(index)
    if variable is not None and variable.keyed:
        return text.known()
    number = shell.calculated(text, index.place)
    value = shell.state.get(name)
    if number < 0:
        try:
            number += _length_of(value)
        except NotKnownError as why:
            if not reads:
                shell.shell.may_be_refused(index.place, str(why))
            raise
        if number < 0 and not reads:
            shell.shell.refused(index.place, "an index is before the first item")
    return str(number)


def _length_of(value: Value | None) -> int:
    """The index behind the last item. Raises NotKnownError."""
    if isinstance(value, Array):
        value.count()
        return max(map(int, value.items), default=-1) + 1
    if value is not None and value.spreads:
        value.known()
    return int(value is not None)


def _special(part: Parameter, shell: Expander) -> Values:
    if part.name in ("@", "*"):
        return shell.state.parameters or ()
    if part.name == "#":
        return Text.at(part.place, str(shell.state.count()))
    if part.name == "?":
        return Text.at(part.place, shell.shell.status_text())
    raise NotKnownError(f"${part.name} is known only while the script runs")


def _defaulted(
    part: Parameter, found: Values | None, shell: Expander, fields: Fields, *, quoted: bool
) -> Values | None:
    """${X:-default} and the like; without the colon, an empty value counts as set."""
    kind, operand = part.operator[-1], part.operand or Word((), part.place)
    if found is None and part.name in LIVE and not shell.state.is_empty(part.name):
        raise NotKnownError(shell.state.unset(part.name))
    is_set = found is not None and not (isinstance(found, Sequence) and not found)
    if is_set and found is not None and len(part.operator) == 2:
        is_set = not _is_empty(found)
    if kind == "+":
        if is_set:
            shell.operand(operand, fields, quoted=quoted)
            return None
        return () if is_all(part) else Text.at(part.place, "")
    if is_set:
        return found
    if kind == "?":
        text = shell.missing(part.name, part.place) if found is None else Text.at(part.place, "")
        if text.unknown is None:
            shell.shell.ends(part.place, f"{part.name} is not set")
        shell.shell.supposed(part.place)
        return text
    if kind == "=":
        return _assigned(part, operand, shell)
    shell.operand(operand, fields, quoted=quoted)
    return None


def _assigned(part: Parameter, operand: Word, shell: Expander) -> Text:
    """${X:=default}"""
    if not re.fullmatch(r"[A-Za-z_]\w*", part.name) or is_all(part):
        shell.shell.refused(part.place, f"{part.name} cannot be assigned so")
    index = None if part.index is None else subscript(part.name, part.index, shell)
    shell.shell.assign(part.name, shell.value(operand), part.place, index)
    value = shell.state.get(part.name)
    if isinstance(value, Array):
        value = value.item(index or "0")
    return value if value is not None else Text.at(part.place, "")


def _is_empty(values: Values) -> bool:
    """Raises NotKnownError."""
    if isinstance(values, Text):
        return values.is_empty()
    return len(values) == 0 or (len(values) == 1 and values[0].is_empty())


def _count(part: Parameter, shell: Expander) -> Text:
    """${#X[@]} and ${#@}."""
    if part.index is None:
        return Text.at(part.place, str(shell.state.count()))
    value = shell.state.get(part.name)
    if isinstance(value, Array):
        return Text.at(part.place, str(value.count()))
    if value is None:
        if shell.state.missing and part.name not in shell.state.variables:
            raise NotKnownError(shell.state.unset(part.name))
        if shell.state.on("nounset"):
            shell.shell.ends(part.place, f"{part.name} is not set, and set -u is on")
        return Text.at(part.place, "0")
    if value.spreads:
        value.known()
    return Text.at(part.place, "1")


def _length(part: Parameter, found: Values | None, shell: Expander) -> Text:
    if found is None:
        found = shell.missing(part.name, part.place)
    if not isinstance(found, Text):
        raise NotKnownError(f"{part.written} is not read")
    return Text.at(part.place, str(len(found.known())))


def _indirect(part: Parameter, shell: Expander, fields: Fields, *, quoted: bool) -> Values | None:
    """${!X}: the variable that X names; ${!X[@]}: the keys of an array."""
    if part.index is not None and is_all(part):
        value = shell.state.get(part.name)
        if isinstance(value, Array):
            value.count()
            value.listed()
            return [Text.at(part.place, key) for key in value.items]
        if value is None:
            return ()
        if value.spreads:
            value.known()
        return [Text.at(part.place, "0")]
    variable = shell.state.variables.get(part.name)
    if variable is not None and variable.reference:
        raise NotKnownError(f"{part.written} of a name that stands for another is not read")
    found = looked_up(part, shell)
    if not isinstance(found, Text):
        if shell.state.is_empty(part.name):
            shell.shell.refused(part.place, f"{part.written} names no variable")
        shell.shell.may_be_refused(part.place, shell.state.unset(part.name))
        raise NotKnownError(shell.state.unset(part.name))
    if found.unknown is not None:
        shell.shell.may_be_refused(part.place, found.unknown)
    named = _REFERENCE.fullmatch(found.known())
    if named is None:
        shell.shell.refused(part.place, f"{part.written} names no variable")
    index = None
    if named[2] is not None:
        literal = Literal(Text.at(part.place, named[2]).pieces, quoted=False)
        index = Word((literal,), part.place)
    meant = Parameter(
        named[1] or named[0],
        part.place,
        part.written,
        "",
        index,
        part.operator,
        part.operand,
        part.second,
    )
    return _expanded(meant, shell, fields, quoted=quoted)


def _slice(part: Parameter, found: Values, shell: Expander) -> Values:
    """${X:start:length}."""
    operand = part.operand or Word((), part.place)
    start = shell.number(operand)
    length = None if part.second is None else shell.number(part.second)
    if isinstance(found, Text):
        if length is not None and length < 0 and found.unknown is not None:
            shell.shell.may_be_refused(part.place, found.unknown)
        known = found.known()
        if start < 0:
            start += len(known)
            if start < 0:
                return Text.at(part.place, "")
        if start > len(known):
            return Text.at(part.place, "")
        end = len(known) if length is None else start + length
        if length is not None and length < 0:
            end = len(known) + length
            if end < start:
                shell.shell.refused(part.place, f"{part.written} ends before it begins")
        return Text.at(part.place, known[start:end])
    return _items(part, found, shell, start, length)


def _items(
    part: Parameter, found: Sequence[Text], shell: Expander, start: int, length: int | None
) -> Sequence[Text]:
    """Items from an index on; of the parameters, $0 is the first."""
    if length is not None and length < 0:
        shell.shell.refused(part.place, f"{part.written} ends before it begins")
    if part.index is None:
        zero = shell.state.name or Text.at(part.place, "$0", "$0 is known only when it runs")
        numbered = list(enumerate([zero, *found]))
    else:
        value = shell.state.get(part.name)
        keys = value.items if isinstance(value, Array) else ["0"]
        if isinstance(value, Array) and value.keyed:
            raise NotKnownError("a part of an associative array is not read")
        numbered = list(zip(map(int, keys), found, strict=False))
    spreads = next((at for at, (_, text) in enumerate(numbered) if text.spreads), None)
    if start < 0:
        if spreads is not None:
            numbered[spreads][1].known()
        start += (numbered[-1][0] if numbered else -1) + 1
        if start < 0:
            return ()
    kept = [text for number, text in numbered if number >= start]
    if spreads is not None and (length is not None or start > numbered[spreads][0]):
        numbered[spreads][1].known()
    return kept if length is None else kept[:length]


def _changed(part: Parameter, found: Values, shell: Expander) -> Values:
    """${X%suffix}, ${X#prefix}, ${X/from/to}, ${X^^} of a text or of every item."""
    texts = [found] if isinstance(found, Text) else found
    unclear = next((text.unknown for text in texts if text.unknown is not None), None)
    if unclear is not None:
        if not all(_is_harmless(each) for each in (part.operand, part.second)):
            shell.shell.may_be_refused(part.place, unclear)
        raise NotKnownError(unclear)
    change = _change(part, shell)
    changed = [Text.at(part.place, change(str(text))) for text in texts]
    for text in changed:
        shell.shell.budget.spend(len(str(text)))
    return changed[0] if isinstance(found, Text) else changed


def _is_harmless(operand: Word | None) -> bool:
    """Whether an operand sets nothing, starts nothing and is never refused."""

    def is_plain(part: Part) -> bool:
        if isinstance(part, Quoted):
            return all(map(is_plain, part.parts))
        if isinstance(part, Parameter):
            return not (part.operator or part.prefix or part.index)
        return isinstance(part, Literal)

    return operand is None or all(map(is_plain, operand.parts))


def _change(part: Parameter, shell: Expander) -> Callable[[str], str]:
    operator, operand = part.operator, part.operand or Word((), part.place)
    if operator[0] in "#%":
        pattern = shell.compiled(operand)
        return lambda text: _cut(text, pattern, operator)
    if operator[0] == "/":
        return _replacement(part, operand, shell)
    if operator[0] in "^,":
        convert = _CASES[operator[0]]
        every = len(operator) == 2
        wanted = shell.compiled(operand) if operand.parts else [patterns.Signs(lambda _: True)]
        return lambda text: _cased(text, convert, wanted, every=every)
    kind = operand.bare
    if operator == "@" and kind in ("U", "L"):
        return _CASES[kind]
    if operator == "@" and kind == "u":
        return lambda text: text[:1].upper() + text[1:]
    if operator == "@" and kind == "Q":
        return _requoted
    raise NotKnownError(f"{part.written} is not read")


def _requoted(text: str) -> str:
    if not text.isprintable():
        raise NotKnownError("how bash quotes such a text is not read")
    return "'" + text.replace("'", "'\\''") + "'"


def _cased(
    text: str, convert: Callable[[str], str], wanted: patterns.Pattern, *, every: bool
) -> str:
    if not text.isascii():
        raise NotKnownError("the case of letters that are not ASCII is a matter of the locale")
    head, rest = (text, "") if every else (text[:1], text[1:])
    found = (convert(sign) if patterns.matches(sign, wanted) else sign for sign in head)
    return "".join(found) + rest


def _cut(text: str, pattern: patterns.Pattern, operator: str) -> str:
    """A text without the part at one end that matches."""
    choose = max if len(operator) == 2 else min
    if operator[0] == "#":
        found = patterns.lengths(text, pattern)
        return text[choose(found) :] if found else text
    found = patterns.lengths(text[::-1], patterns.reversed_(pattern))
    return text[: len(text) - choose(found)] if found else text


def _replacement(part: Parameter, operand: Word, shell: Expander) -> Callable[[str], str]:
    signs = shell.pattern(operand)
    pattern = shell.compiled(operand)
    to = _put_in(part, shell)
    if part.operator in ("/#", "/%") and not signs:
        return lambda text: to + text if part.operator == "/#" else text + to
    if not signs:
        return lambda text: text

    def replaced(text: str) -> str:
        if not text and patterns.matches("", pattern):
            raise NotKnownError("a replacement in an empty text is not read")
        if part.operator == "/#":
            found = patterns.lengths(text, pattern)
            return to + text[max(found) :] if found else text
        if part.operator == "/%":
            found = patterns.lengths(text[::-1], patterns.reversed_(pattern))
            return text[: len(text) - max(found)] + to if found else text
        return patterns.replaced(text, pattern, lambda _: to, every=part.operator == "//")

    return replaced


def _put_in(part: Parameter, shell: Expander) -> str:
    """The text of a replacement, in which & has a meaning from bash 5.2 on."""
    if part.second is None:
        return ""
    signs = shell.pattern(part.second)
    if any(sign in "&\\" and not quoted for sign, quoted in signs):
        raise NotKnownError("a & in a replacement means another thing from bash 5.2 on")
    return "".join(sign for sign, _ in signs)
