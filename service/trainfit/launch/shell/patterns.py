"""Patterns as bash matches them: * ? [...] and @(...)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trainfit.launch.shell.text import NotKnownError

MAX_WORK = 1 << 20
"""Signs of a text times those of its pattern; paths and versions are far shorter."""


def _ascii(test: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda sign: sign.isascii() and test(sign)


_CLASSES: Mapping[str, Callable[[str], bool]] = {
    "alnum": _ascii(str.isalnum),
    "alpha": _ascii(str.isalpha),
    "ascii": str.isascii,
    "blank": lambda sign: sign in " \t",
    "cntrl": lambda sign: ord(sign) < 32 or ord(sign) == 127,
    "digit": _ascii(str.isdigit),
    "graph": lambda sign: "!" <= sign <= "~",
    "lower": _ascii(str.islower),
    "print": lambda sign: " " <= sign <= "~",
    "punct": lambda sign: "!" <= sign <= "~" and not sign.isalnum(),
    "space": lambda sign: sign in " \t\n\r\f\v",
    "upper": _ascii(str.isupper),
    "word": _ascii(lambda sign: sign.isalnum() or sign == "_"),
    "xdigit": lambda sign: sign in "0123456789abcdefABCDEF",
}


class Signs(NamedTuple):
    """One sign for which this holds."""

    holds: Callable[[str], bool]


class Any(NamedTuple):
    """*"""


class ExtendedPattern(NamedTuple):
    """@(...), ?(...), *(...), +(...), !(...) with its alternatives."""

    kind: str
    alternatives: Sequence[Pattern]


Token = str | Signs | Any | ExtendedPattern
Pattern = Sequence[Token]


class Quotable(NamedTuple):
    """A sign of a pattern, and whether it stands for itself."""

    sign: str
    quoted: bool


def compiled(signs: Sequence[Quotable], *, extended: bool) -> Pattern:
    """A pattern of these signs. Raises NotKnownError."""
    tokens, at = _sequence(signs, 0, extended=extended, ends="")
    if at != len(signs):
        raise NotKnownError("a pattern with an open bracket is not read")
    return tokens


def _sequence(
    signs: Sequence[Quotable], at: int, *, extended: bool, ends: str
) -> tuple[Pattern, int]:
    tokens: list[Token] = []
    while at < len(signs):
        sign, quoted = signs[at]
        if not quoted and sign in ends:
            break
        grouped = extended and signs[at + 1 : at + 2] == [Quotable("(", quoted=False)]
        if quoted:
            tokens.append(sign)
        elif sign in "?*+@!" and grouped:
            group, at = _group(signs, at)
            tokens.append(group)
            continue
        elif sign == "*":
            if not (tokens and isinstance(tokens[-1], Any)):
                tokens.append(Any())
        elif sign == "?":
            tokens.append(Signs(lambda _: True))
        elif sign == "[" and (found := _bracket(signs, at)) is not None:
            token, at = found
            tokens.append(token)
            continue
        elif sign == "\\" and at + 1 < len(signs):
            at += 1
            tokens.append(signs[at].sign)
        else:
            tokens.append(sign)
        at += 1
    return tokens, at


def _group(signs: Sequence[Quotable], at: int) -> tuple[ExtendedPattern, int]:
    kind = signs[at].sign
    alternatives: list[Pattern] = []
    at += 1
    while True:
        tokens, at = _sequence(signs, at + 1, extended=True, ends="|)")
        alternatives.append(tokens)
        if at >= len(signs):
            raise NotKnownError("a pattern with an open bracket is not read")
        if signs[at].sign == ")":
            return ExtendedPattern(kind, alternatives), at + 1


def _bracket(signs: Sequence[Quotable], at: int) -> tuple[Signs, int] | None:
    """[...]; None where no bracket ends it, so that it stands for itself."""
    at += 1
    negated = signs[at : at + 1] in ([Quotable("!", quoted=False)], [Quotable("^", quoted=False)])
    at += negated
    tests: list[Callable[[str], bool]] = []
    first = True
    while at < len(signs):
        sign, quoted = signs[at]
        if sign == "]" and not quoted and not first:
            return Signs(_holds(tests, negated=negated)), at + 1
        first = False
        if sign == "[" and not quoted and at + 1 < len(signs) and signs[at + 1].sign in ":.=":
            name, at = _named_class(signs, at)
            if name not in _CLASSES:
                raise NotKnownError(f"the class [:{name}:] is not read")
            tests.append(_CLASSES[name])
            continue
        if sign == "\\" and not quoted and at + 1 < len(signs):
            at += 1
            sign = signs[at].sign
        if (
            at + 2 < len(signs)
            and signs[at + 1] == Quotable("-", quoted=False)
            and signs[at + 2] != Quotable("]", quoted=False)
        ):
            tests.append(_range(sign, signs[at + 2].sign))
            at += 3
        else:
            tests.append(_one(sign))
            at += 1
    return None


def _named_class(signs: Sequence[Quotable], at: int) -> tuple[str, int]:
    kind, end = signs[at + 1].sign, at + 2
    while end + 1 < len(signs) and (signs[end].sign, signs[end + 1].sign) != (kind, "]"):
        end += 1
    if kind != ":" or end + 1 >= len(signs):
        raise NotKnownError("a pattern with [. or [= is not read")
    return "".join(each.sign for each in signs[at + 2 : end]), end + 2


def _holds(tests: Sequence[Callable[[str], bool]], *, negated: bool) -> Callable[[str], bool]:
    return lambda sign: any(test(sign) for test in tests) != negated


def _range(first: str, last: str) -> Callable[[str], bool]:
    return lambda sign: first <= sign <= last


def _one(wanted: str) -> Callable[[str], bool]:
    return lambda sign: sign == wanted


def matches(text: str, pattern: Pattern) -> bool:
    """Whether a text as a whole is as a pattern says. Raises NotKnownError."""
    _check(len(text) * (len(pattern) + 1))
    return len(text) in _ends(pattern, text, {0})


def lengths(text: str, pattern: Pattern) -> set[int]:
    """The lengths of what a text may begin with. Raises NotKnownError."""
    _check(len(text) * (len(pattern) + 1))
    return _ends(pattern, text, {0})


def reversed_(pattern: Pattern) -> Pattern:
    """The pattern of what is written backwards."""
    return [
        ExtendedPattern(token.kind, [reversed_(each) for each in token.alternatives])
        if isinstance(token, ExtendedPattern)
        else token
        for token in reversed(pattern)
    ]


def replaced(text: str, pattern: Pattern, to: Callable[[str], str], *, every: bool) -> str:
    """A text in which the longest match, or each of them, gives way. Raises NotKnownError."""
    _check(len(text) ** 2 * (len(pattern) + 1) // 4)
    parts, at = [], 0
    while at < len(text):
        end = max(_ends(pattern, text, {at}), default=at)
        if end > at:
            parts.append(to(text[at:end]))
            at = end
            if not every:
                break
        else:
            parts.append(text[at])
            at += 1
    return "".join([*parts, text[at:]])


def _check(work: int) -> None:
    if work > MAX_WORK:
        raise NotKnownError("a text this long is not matched with a pattern")


def _ends(pattern: Pattern, text: str, starts: set[int]) -> set[int]:
    """Where a match may end that begins at one of these."""
    for token in pattern:
        if not starts:
            break
        if isinstance(token, Any):
            starts = set(range(min(starts), len(text) + 1))
        elif isinstance(token, ExtendedPattern):
            starts = _group_ends(token, text, starts)
        elif isinstance(token, Signs):
            starts = {at + 1 for at in starts if at < len(text) and token.holds(text[at])}
        else:
            starts = {at + 1 for at in starts if text.startswith(token, at)}
    return starts


def _group_ends(group: ExtendedPattern, text: str, starts: set[int]) -> set[int]:
    if group.kind == "!":
        _check(len(text) ** 2)
        return {
            end
            for start in starts
            for end in set(range(start, len(text) + 1)) - _any(group, text, {start})
        }
    once = _any(group, text, starts)
    if group.kind == "@":
        return once
    if group.kind == "?":
        return once | starts
    found, new = set(once), once
    while new:
        new = _any(group, text, new) - found
        found |= new
    return found | starts if group.kind == "*" else found


def _any(group: ExtendedPattern, text: str, starts: set[int]) -> set[int]:
    return set().union(*(_ends(each, text, starts) for each in group.alternatives))
