"""Programs that let lines through, or words or signs of them: grep, head, awk and tr."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainfit.launch.shell import files
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.regular import MAX_WORK, work
from trainfit.launch.shell.text import Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

Words = Sequence[Text]

_OPTIONS = re.compile(r"-[qEiF]+")
_EXPRESSION = re.compile(r"\^?(?:(?:[\w :=/,\"'<>@%~!#&;.-]|\\[.sw-])\*?)*\$?")
"""What means the same to grep, with -E or without, and to Python."""


def grep(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """The lines of one text that an expression is found in; its status says whether there are."""
    given = [text.known() for text in words]
    letters = "".join(each[1:] for each in given if each.startswith("-"))
    named = [at for at, each in enumerate(given) if not each.startswith("-")]
    if not 1 <= len(named) <= 2 or not all(
        _OPTIONS.fullmatch(each) for each in given if each.startswith("-")
    ):
        return None
    pattern, fixed = given[named[0]], "F" in letters
    if "\n" in pattern or not (fixed or _EXPRESSION.fullmatch(pattern)):
        return None
    text = files.content(script, words[named[1]]) if len(named) == 2 else script.state.stdin
    if text is None:
        return None
    script.budget.spend(len(text.known()))
    lines = [str(line) for line in text.lines()]
    repetitions = 0 if fixed else pattern.count("*")
    if sum(work(line, len(pattern), repetitions) for line in lines) > MAX_WORK:
        return None
    sought = re.compile(
        re.escape(pattern) if fixed else pattern, re.ASCII | (re.IGNORECASE * ("i" in letters))
    )
    found = [line for line in lines if sought.search(line)]
    if len(named) == 1:
        script.state.stdin = None
    if "q" not in letters:
        for line in found:
            script.emit(Text.at(place, f"{line}\n"))
    return 0 if found else 1


_LINES = re.compile(r"-n?([0-9]{1,4})")


def head(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """head -n 1 and head -1 of what is read."""
    asked = _LINES.fullmatch("".join(text.known() for text in words))
    text = script.state.stdin
    if text is None or asked is None:
        return None
    lines = text.known().splitlines(keepends=True)[: int(asked[1])]
    script.state.stdin = None
    if lines:
        script.emit(Text.at(place, "".join(lines)))
    return 0


_COUNTS = re.compile(r"\s*\{\s*print\s+NF;?\s*\}\s*")
_FIELD = re.compile(r"\s*\{\s*print\s+\$(?P<number>[1-9]|NF);?\s*\}\s*")


def awk(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """awk -F, '{print NF}', how many fields each line has that is read, and '{print $2}', one of
    them.
    """
    *options, program = [text.known() for text in words]
    text, separator = script.state.stdin, "".join(options).removeprefix("-F")
    one = _FIELD.fullmatch(program)
    if (
        text is None
        or separator not in (",", ":", ";", "=", "")
        or bool(options) != bool(separator)
    ):
        return None
    if one is None and (not _COUNTS.fullmatch(program) or not separator):
        return None
    lines = text.known().splitlines()
    script.state.stdin = None
    for line in lines:
        fields = (line.split(separator) if separator else line.split()) if line else []
        if one is None:
            printed = str(len(fields))
        else:
            at = len(fields) if one["number"] == "NF" else int(one["number"])
            printed = fields[at - 1] if 0 < at <= len(fields) else "" if at else line
        script.emit(Text.at(place, f"{printed}\n"))
    return 0


def tr(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """tr of one sign into another, and tr -d of signs."""
    given = [text.known().replace("\\n", "\n").replace("\\t", "\t") for text in words]
    text = script.state.stdin
    if text is None or len(given) != 2 or any("\\" in each or "[" in each for each in given):
        return None
    known = text.known()
    if given[0] == "-d" and "-" not in given[1] and known.isascii():
        known = "".join(sign for sign in known if sign not in given[1])
    elif len(given[0]) == len(given[1]) == 1:
        known = known.replace(given[0], given[1])
    else:
        return None
    script.state.stdin = None
    script.emit(Text.at(place, known))
    return 0
