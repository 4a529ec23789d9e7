"""Programs that only print what follows from their words and from what they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from trainfit.launch.shell import files, filters
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import NODE, Piece
from trainfit.launch.shell.sed import sed
from trainfit.launch.shell.text import NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

MAX_NUMBERS = 10_000

Words = Sequence[Text]
_INTEGER = re.compile(r"-?\d{1,9}")


def _cat(script: ShellScript, words: Words, _place: Piece) -> Status | None:
    """cat of files that the script wrote, or of what it reads."""
    names = [text for text in words if str(text) != "-"]
    if any(str(text).startswith("-") or text.spreads for text in names):
        return None
    found = [files.content(script, text) for text in names] or [script.state.stdin]
    if not names:
        script.state.stdin = None
    for text in found:
        if text is None:
            return None
    for text in found:
        assert text is not None
        script.emit(text)
    return 0


def _tee(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """tee: what is read, into files and on."""
    text = script.state.stdin
    script.state.stdin = None
    names = [str(word) for word in words if not str(word).startswith("-")]
    if text is None:
        text = Text.at(place, "$(...)", "what tee reads is known only when it runs")
    for name in names:
        if len(names) == len(words):
            files.keep(script, name, text, place)
        else:
            lost = Text.at(place, "$(...)", "it is added to what the file holds")
            files.keep(script, name, lost, place)
    script.emit(text)
    return 0


def _seq(script: ShellScript, words: Words, place: Piece) -> Status | None:
    separator = "\n"
    given = [text.known() for text in words]
    if len(given) > 1 and given[0] == "-s":
        separator, given = given[1], given[2:]
    if not 1 <= len(given) <= 3 or not all(_INTEGER.fullmatch(each) for each in given):
        return None
    numbers = [int(each) for each in given]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    last = numbers[-1]
    if step == 0:
        return None
    found = range(first, last + (1 if step > 0 else -1), step)
    if len(found) > MAX_NUMBERS:
        raise NotKnownError(f"more than {MAX_NUMBERS} numbers are not counted")
    if found:
        script.emit(Text.at(place, f"{separator.join(map(str, found))}\n"))
    return 0


def _expr(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """expr of whole numbers and operators between them; its status says whether the result is one
    other than zero.
    """
    given = [text.known() for text in words]
    operators, numbers = given[1::2], given[::2]
    if len(given) % 2 == 0 or not all(map(_INTEGER.fullmatch, numbers)) or not operators:
        return None
    terms = [int(numbers[0])]
    for operator, number in zip(operators, map(int, numbers[1:]), strict=True):
        if operator in ("+", "-"):
            terms.append(number if operator == "+" else -number)
        elif operator == "*":
            terms[-1] *= number
        elif operator in ("/", "%") and number != 0:
            quotient = _divided(terms[-1], number)
            terms[-1] = quotient if operator == "/" else terms[-1] - quotient * number
        else:
            return None
    script.emit(Text.at(place, f"{sum(terms)}\n"))
    return 0 if sum(terms) else 1


def _divided(left: int, right: int) -> int:
    """A quotient that is cut towards zero, as in C."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _basename(script: ShellScript, words: Words, place: Piece) -> Status | None:
    given = [text.known() for text in words]
    if not 1 <= len(given) <= 2 or given[0].startswith("-") or not given[0]:
        return None
    name = given[0].rstrip("/").rpartition("/")[2] or "/"
    if len(given) == 2 and name != given[1]:
        name = name.removesuffix(given[1])
    script.emit(Text.at(place, f"{name}\n"))
    return 0


def _dirname(script: ShellScript, words: Words, place: Piece) -> Status | None:
    given = [text.known() for text in words]
    if len(given) != 1 or given[0].startswith("-"):
        return None
    path = given[0].rstrip("/") or given[0][:1]
    folder, sign, _ = path.rpartition("/")
    found = folder.rstrip("/") or "/" if sign else "."
    script.emit(Text.at(place, f"{found}\n"))
    return 0


def _counted(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """wc -l and wc -w of what is read."""
    option = words[0].known() if len(words) == 1 else ""
    text = script.state.stdin
    if option not in ("-l", "-w") or text is None:
        return None
    known = Text(tuple(map(_as_named, text.pieces))).known()
    script.state.stdin = None
    count = known.count("\n") if option == "-l" else len(known.split())
    script.emit(Text.at(place, f"{count}\n"))
    return 0


_HOST = "$(hostname)"
_OF_THE_JOB = ("${SLURM_JOB_NODELIST}", "${SLURM_NODELIST}", "$SLURM_JOB_NODELIST")


def _as_named(piece: Piece) -> Piece:
    """A piece, with a word in the place of one name of a node, which has no blanks."""
    one = piece.unknown == NODE and piece.text == _HOST
    return replace(piece, text="node", unknown=None) if one else piece


def _nodes_listed(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """scontrol show hostnames: a line for each node of the job that Slurm runs the script in."""
    given = [str(text) for text in words]
    nodes = script.state.get("SLURM_NNODES")
    count = "" if not isinstance(nodes, Text) or nodes.unknown is not None else str(nodes)
    of_the_job = len(given) == 2 or (len(given) == 3 and given[2] in _OF_THE_JOB)
    listed = given[:2] in (["show", "hostnames"], ["show", "hostname"]) and of_the_job
    if not listed or not count.isdecimal() or int(count) > MAX_NUMBERS:
        return None
    line = Text.at(place, _HOST, NODE) + Text.at(place, "\n")
    for _ in range(int(count)):
        script.emit(line)
    return 0


def _cautious(
    follow: Callable[[ShellScript, Words, Piece], Status | None],
) -> Callable[[ShellScript, Words, Piece], Status | None]:
    """The program, but where it is not known what it is given."""

    def followed(script: ShellScript, words: Words, place: Piece) -> Status | None:
        if any(text.spreads for text in words):
            return None
        try:
            return follow(script, words, place)
        except NotKnownError:
            return None

    return followed


PROGRAMS: Mapping[str, Callable[[ShellScript, Words, Piece], Status | None]] = {
    "awk": _cautious(filters.awk),
    "basename": _cautious(_basename),
    "cat": _cautious(_cat),
    "dirname": _cautious(_dirname),
    "expr": _cautious(_expr),
    "grep": _cautious(filters.grep),
    "head": _cautious(filters.head),
    "scontrol": _nodes_listed,
    "sed": _cautious(sed),
    "seq": _cautious(_seq),
    "tee": _cautious(_tee),
    "tr": _cautious(filters.tr),
    "wc": _cautious(_counted),
}
"""By name; None as the status where what they print is not known."""
