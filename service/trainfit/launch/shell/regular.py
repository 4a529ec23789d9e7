"""Regular expressions of [[ =~ ]], as far as they mean the same to Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainfit.launch.shell.patterns import Quotable
from trainfit.launch.shell.text import NotKnownError

MAX_WORK = 1 << 27

_CLASSES: Mapping[str, str] = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
}
_REPEATED = re.compile(r"[*+?]|\{\d{1,3}(?:,\d{0,3})?\}")

Group = tuple[str, str | None]
"""What a group matched, or why that is not known."""


def work(text: str, signs: int, repetitions: int) -> int:
    """Places where a match may begin, times the steps from one: the signs of the text to the power
    of the repetitions in an expression, or the signs of that.
    """
    length = max(len(text), 2)
    steps: int = max(length**repetitions, signs)
    return length * steps


def matched(text: str, signs: Sequence[Quotable]) -> Sequence[Group] | None:
    """What an expression matches in a text, and each of its groups; None where it does not.

    Raises NotKnownError.
    """
    found = _Translation(signs)
    if work(text, len(signs), found.repetitions) > MAX_WORK:
        raise NotKnownError("a text this long is not matched with such an expression")
    match = re.search(found.expression, text)
    if match is None:
        return None
    if found.ambiguous:
        why = "which part of a text the expression matches is not read"
        return [("", why)] * (found.groups + 1)
    return [(match[0], None), *((group or "", None) for group in match.groups())]


class _Translation:
    """An extended regular expression of POSIX in Python's terms."""

    def __init__(self, signs: Sequence[Quotable]) -> None:
        self._signs = signs
        self._at = 0
        self.repetitions = 0
        self.groups = 0
        self.ambiguous = False
        self.expression = "".join(self._all())
        try:
            re.compile(self.expression)
        except (re.error, OverflowError):
            raise NotKnownError("a regular expression is not read") from None

    def _all(self) -> Sequence[str]:
        parts: list[str] = []
        within_group = [False]
        while self._at < len(self._signs):
            sign, quoted = self._signs[self._at]
            self._at += 1
            if quoted or sign not in "[]()|*+?{}^$.\\":
                parts.append(re.escape(sign))
            elif sign == "[":
                parts.append(self._bracket())
            elif sign in "*+?{":
                parts.append(self._repetition(sign))
            elif sign == "\\":
                parts.append(self._escaped())
            elif sign == ".":
                parts.append("(?s:.)")
            elif sign == "$":
                parts.append(r"\Z")
            elif sign == "^":
                parts.append(r"\A")
            elif sign == "|":
                self.ambiguous = True
                parts.append(sign)
            elif sign == "(":
                self.groups += 1
                within_group.append(False)
                parts.append(sign)
            elif sign == ")":
                if len(within_group) == 1:
                    raise NotKnownError("a regular expression is not read")
                within_group.pop()
                parts.append(sign)
                if self._at < len(self._signs) and self._signs[self._at].sign in "*+?{":
                    self._group_repeated()
            else:
                raise NotKnownError("a regular expression is not read")
        if self.repetitions > 1 and not (parts and parts[-1] == r"\Z"):
            self.ambiguous = True
        return parts

    def _group_repeated(self) -> None:
        """What repeats a group that repeats in itself may take for ever."""
        self.ambiguous = True
        if self.repetitions or self._signs[self._at].sign == "{":
            raise NotKnownError("a repetition of a group that repeats is not read")

    def _repetition(self, sign: str) -> str:
        found = sign
        if sign == "{":
            text = "".join(each.sign for each in self._signs[self._at - 1 :][:10])
            match = _REPEATED.match(text)
            if match is None:
                raise NotKnownError("a regular expression is not read")
            found = match[0]
            self._at += len(found) - 1
        self.repetitions += 1
        following = self._signs[self._at : self._at + 1]
        if following and not following[0].quoted and following[0].sign in "*+?{":
            raise NotKnownError("a regular expression is not read")
        return found

    def _escaped(self) -> str:
        if self._at >= len(self._signs):
            raise NotKnownError("a regular expression is not read")
        sign = self._signs[self._at].sign
        self._at += 1
        if sign.isalnum() or sign in "<>`'":
            raise NotKnownError(f"\\{sign} in a regular expression is not read")
        return re.escape(sign)

    def _bracket(self) -> str:
        parts = ["["]
        if self._sign() == "^":
            parts.append("^")
            self._at += 1
        first = True
        while (sign := self._sign()) != "]" or first:
            first = False
            if sign == "":
                raise NotKnownError("a regular expression is not read")
            following = self._signs[self._at + 1].sign if self._at + 1 < len(self._signs) else ""
            if sign == "[" and following in (":", ".", "="):
                parts.append(self._class())
                continue
            parts.append(sign if sign == "-" else re.escape(sign))
            self._at += 1
        self._at += 1
        return "".join([*parts, "]"])

    def _class(self) -> str:
        text = "".join(each.sign for each in self._signs[self._at :][:12])
        found = re.match(r"\[:([a-z]+):\]", text)
        if found is None or found[1] not in _CLASSES:
            raise NotKnownError("a class of a regular expression is not read")
        self._at += len(found[0])
        return _CLASSES[found[1]]

    def _sign(self) -> str:
        return self._signs[self._at].sign if self._at < len(self._signs) else ""
