"""Conditions of bash's grammar: what stands between [[ and ]]."""

from __future__ import annotations

import re
from abc import ABC

from trainfit.launch.shell.lines import Lines
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.syntax import (
    Both,
    Condition,
    ConditionalPrimary,
    Either,
    Node,
    Not,
    Test,
    Word,
)

_UNARY = re.compile(r"-[a-zA-Z]")
_QUESTIONS = frozenset(
    ("=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef")
)


class Conditions(Lines, ABC):
    """Reads conditions: questions, joined by !, && and ||."""

    def _condition(self, place: Piece) -> Node:
        start = self.at
        outer, self._in_condition = self._in_condition, True
        with self.deeper():
            test = self._either()
        self._in_condition = outer
        self._lines()
        written = self.text[start : self.at].strip()
        self._past_keyword("]]")
        return Condition(test, written, place)

    def _either(self) -> Test:
        test = self._both()
        self._lines()
        while self.follows("||"):
            self.at += 2
            test = Either(test, self._both())
            self._lines()
        return test

    def _both(self) -> Test:
        test = self._negated()
        self._lines()
        while self.follows("&&"):
            self.at += 2
            test = Both(test, self._negated())
            self._lines()
        return test

    def _negated(self) -> Test:
        self._lines()
        if self._keyword() == "!":
            self.at += 1
            with self.deeper():
                return Not(self._negated())
        if self.sign() == "(":
            self.at += 1
            with self.deeper():
                test = self._either()
            self._lines()
            self._past(")")
            return test
        return self._asked()

    def _asked(self) -> Test:
        word = self._tested()
        operator = word.bare
        if operator is not None and _UNARY.fullmatch(operator):
            self._blanks()
            if not self._ends_test():
                return ConditionalPrimary(operator, (self._tested(),))
        self._blanks()
        sign = self._keyword() or self.sign()
        if sign not in _QUESTIONS:
            if not self._ends_test():
                raise self.fail(f"has a {self._seen()} that is not expected")
            return ConditionalPrimary("", (word,))
        self.at += len(sign)
        self._blanks()
        other = self.regular() if sign == "=~" else self._tested()
        return ConditionalPrimary(sign, (word, other))

    def _tested(self) -> Word:
        word = self._patterned()
        if not word.parts or word.bare == "]]":
            raise self.fail("has a condition that is not read")
        return word

    def _ends_test(self) -> bool:
        at_end = self.follows("&&") or self.follows("||") or self.sign() in (")", "\n")
        return at_end or self._keyword() == "]]"
