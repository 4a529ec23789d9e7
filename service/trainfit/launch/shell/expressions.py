"""Expressions of which each sign may repeat, as grep has them: ^batch:.*8$."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_letters, digits, whitespace

MAX_SIGNS = 256
"""Signs of an expression; the keys of a config are far shorter."""

_SIGN = r"(\\[.sw-]|[\w :=/,\"'<>@%~!#&;.-])(\*?)"
_SIGNS = re.compile(_SIGN)
_EXPRESSION = re.compile(rf"(\^?)((?:{_SIGN})*)(\$?)")
"""What means the same to grep with -E and without."""
_CLASSES: Mapping[str, str] = {r"\s": whitespace, r"\w": f"{ascii_letters}{digits}_"}


class Expression:
    """Finds an expression in a line.

    A number holds, as one bit each, how many signs of the expression may have been passed. It
    changes once with each sign of the line, so that the time grows with the length of the line
    and with nothing else, whatever repeats.
    """

    def __init__(self, begins: bool, signs: str, ends: bool) -> None:
        """`signs` are those of an expression, which is at the beginning of a line, or at its end,
        or anywhere.
        """
        self._begins = begins
        self._ends = ends
        self._any = self._repeated = 0
        self._of: dict[str, int] = {}
        found = _SIGNS.findall(signs)
        self._passed = 1 << len(found)
        for at, (sign, repeats) in enumerate(found):
            bit = 1 << at
            self._repeated |= bit * bool(repeats)
            if sign == ".":
                self._any |= bit
                continue
            for each in _CLASSES.get(sign, sign[-1]):
                self._of[each] = self._of.get(each, 0) | bit

    @classmethod
    def of(cls, text: str) -> Expression | None:
        """None where the text means something else to one of grep and grep -E, or is too long."""
        found = _EXPRESSION.fullmatch(text) if len(text) <= MAX_SIGNS else None
        return None if found is None else cls(bool(found[1]), found[2], bool(found[5]))

    def is_in(self, line: str) -> bool:
        """Whether a line without its end has it."""
        passed = self._skipping(1)
        for sign in line:
            if passed & self._passed and not self._ends:
                return True
            here = passed & (self._of.get(sign, 0) | self._any)
            staying = here & self._repeated
            passed = self._skipping(staying | (here ^ staying) << 1 | (not self._begins))
        return bool(passed & self._passed)

    def _skipping(self, passed: int) -> int:
        """With what repeats no times: the sum carries each bit to the end of a row of such."""
        repeated = self._repeated
        return passed | ((passed & repeated) + repeated) ^ repeated
