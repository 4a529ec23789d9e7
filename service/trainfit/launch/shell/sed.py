"""sed, where all it does is to put a text in the place of another: s/CONFIG_MBSIZE/${BATCH}/."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from trainfit.launch.shell import files
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import OPAQUE, Source
from trainfit.launch.shell.text import Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

Words = Sequence[Text]
_SIGN = r"(?:(?!(?P=sign))[^\\\n]|\\(?:(?P=sign)|[\"'.*/$^\[\]&]))"
_COMMAND = re.compile(
    rf"[\s;]*s(?P<sign>[/|#,@:%!_+~])(?P<old>{_SIGN}+)(?P=sign)(?P<new>{_SIGN}*)(?P=sign)"
    r"(?P<every>g?)\s*(?=;|\n|$)"
)
_ESCAPED = re.compile(r"\\(.)")
_REGULAR = re.compile(r"(?<!\\)[.*^$\[\]]|[+?(){}|]")
"""What means more than itself in a pattern, in extended ones if in no others."""
_FILES = frozenset(("-i", "--in-place"))
_ALIKE = frozenset(("-E", "-r", "--regexp-extended", "-u"))


class _Substitution(NamedTuple):
    old: str
    new: Sequence[Piece]
    every: bool


class _Call(NamedTuple):
    substitutions: Sequence[_Substitution]
    names: Words
    in_place: bool


def sed(script: ShellScript, words: Words, place: Piece) -> Status | None:
    """What it reads, or files that were sent or that the script wrote, with each text replaced;
    None where it does more.
    """
    call = _parsed(words)
    if call is None or (call.in_place and not call.names):
        return None
    texts = [files.content(script, name) for name in call.names] or [script.state.stdin]
    missing = [name for name, text in zip(call.names, texts, strict=False) if text is None]
    if missing and not call.in_place and all(_is_elsewhere(script, name) for name in missing):
        why = f"{missing[0]} is read here and was not sent; send it as a file"
        script.emit(Text.at(place, "$(...)", why))
        return f"whether sed succeeds at {script.where(place)} is known only when it runs"
    known = [text for text in texts if text is not None]
    made = [_made(script, text, call.substitutions) for text in known]
    results = [text for text in made if text is not None]
    if len(results) < len(texts):
        return None
    if not call.names:
        script.state.stdin = None
    for name, text in zip(call.names or words[:1], results, strict=True):
        if call.in_place:
            files.keep(script, str(name), text, place)
        else:
            script.emit(text)
    return 0


def _is_elsewhere(script: ShellScript, name: Text) -> bool:
    """Whether a file that has a name is neither sent nor written."""
    path = str(name)
    return name.unknown is None and path not in script.state.files and script.file(path) is None


def _parsed(words: Words) -> _Call | None:
    """What it is told to do; None where not all of it is known."""
    commands: list[Text] = []
    names: list[Text] = []
    given = iter(words)
    in_place = False
    for word in given:
        text = str(word)
        if text in _FILES:
            in_place = True
        elif text == "-e":
            commands.append(next(given, word))
        elif text.startswith("-") and text not in _ALIKE:
            return None
        elif not text.startswith("-"):
            names.append(word)
    if not commands and names:
        commands.append(names.pop(0))
    found: list[_Substitution] = []
    for each in commands:
        substitutions = _substitutions(each)
        if substitutions is None:
            return None
        found += substitutions
    return _Call(found, names, in_place) if found else None


def _substitutions(word: Text) -> list[_Substitution] | None:
    source = Source.of(word)
    found: list[_Substitution] = []
    at, end = 0, len(source.content.rstrip("\n; "))
    while at < end:
        command = _COMMAND.match(source.content, at)
        if command is None or _REGULAR.search(command["old"]) or OPAQUE in command["old"]:
            return None
        if re.search(r"(?<!\\)&", command["new"]):
            return None
        new = [
            piece if piece.unknown is not None else replace(piece, text=_plain(piece.text))
            for piece in source.cut(*command.span("new"))
        ]
        found.append(_Substitution(_plain(command["old"]), new, bool(command["every"])))
        at = command.end()
    return found


def _made(script: ShellScript, text: Text, substitutions: Sequence[_Substitution]) -> Text | None:
    """A text with each replaced in turn; None where one stands in two pieces, in part."""
    for each in substitutions:
        whole = str(text)
        script.budget.spend(len(whole))
        times = whole.count(each.old)
        if times != sum(piece.text.count(each.old) for piece in text.pieces):
            return None
        if not each.every:
            times = min(times, whole.count("\n") + 1)
        script.budget.spend(times * sum(1 + len(piece.text) for piece in each.new))
        text = Text(tuple(_replaced(text, each)) or text.pieces[:1])
    return text


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _replaced(text: Text, what: _Substitution) -> Iterator[Piece]:
    """The pieces of a text with the first of each line replaced, or every one."""
    done = False
    for piece in text.pieces:
        if piece.unknown is not None:
            yield piece
            continue
        for line in piece.text.splitlines(keepends=True):
            first, *others = line.split(what.old, -1 if what.every else 0 if done else 1)
            yield replace(piece, text=first, pieces=())
            for rest in others:
                yield from what.new
                yield replace(piece, text=rest, pieces=())
            done = (done or bool(others)) and not line.endswith("\n")
