"""Files that a script writes and reads itself: cat <<EOF > path, $(< path)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from trainfit.launch.shell import subshells
from trainfit.launch.shell.flow import LeftError
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import lines_of
from trainfit.launch.shell.syntax import Redirect, Substitution
from trainfit.launch.shell.text import Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

_CHANGING = frozenset(
    ("cp", "dd", "envsubst", "ln", "mv", "perl", "rm", "sed", "truncate", "yq", "patch", "unlink")
)
"""Programs that change the files that they name."""
_IF_ASKED = frozenset(("perl", "sed", "yq"))
"""Those that otherwise print what they make of them."""
_IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--in-?place.*")

_APPENDS = frozenset((">>", "&>>"))


class Target:
    """Where a command prints to: a file, or what is thrown away."""

    def __init__(self, path: Text | None, place: Piece, *, kept: bool) -> None:
        self.printed: list[Text] | None = []
        self._path = path
        self._place = place
        self._kept = kept

    def close(self, script: ShellScript) -> None:
        """Keep what was printed as the content of the file, of which a directory may not be known:
        the last name tells it, unless two are called alike.
        """
        if self._path is None or not _has_last_name(self._path):
            return
        path = str(self._path)
        if path.startswith("/dev/"):
            return
        if self._path.unknown is not None and path in script.state.files:
            _write(script, path, _lost(path, self._place, "is written more than once"))
            return
        if not self._kept:
            _write(script, path, _lost(path, self._place, "is written in parts"))
            return
        pieces = [piece for text in self.printed or () for piece in text.pieces]
        text = Text(tuple(pieces) or (self._place,))
        keep(script, path, text, self._place)


def _has_last_name(path: Text) -> bool:
    """Whether the last part of a path is known."""
    known = takewhile(lambda piece: piece.unknown is None, reversed(path.pieces))
    behind = "".join(reversed([piece.text for piece in known]))
    _, slash, name = behind.rpartition("/")
    return path.unknown is None or bool(slash and name)


def keep(script: ShellScript, path: str, text: Text, place: Piece) -> None:
    """Take a text to be the content of a file."""
    if script.loosely:
        _write(script, path, _lost(path, place, "is written or not"))
    else:
        _write(script, path, content_of(path, text))


def _write(script: ShellScript, path: str, content: Piece) -> None:
    script.budget.spend(len(script.state.files))
    script.state.write(path, content)


def touched(script: ShellScript, words: Sequence[Text], place: Piece) -> None:
    """What a program that changes files may do to those that it names."""
    name = str(words[0]).rpartition("/")[2]
    asked = name not in _IF_ASKED or any(_IN_PLACE.fullmatch(str(text)) for text in words[1:])
    if name in _CHANGING and asked:
        for text in words[1:]:
            path = str(text)
            if not path.startswith("-") and (
                path in script.state.files or "/" in path or "." in path
            ):
                _write(script, path, _lost(path, place, f"is changed by {name}"))


def read(script: ShellScript, redirect: Redirect) -> Text | None:
    """What a command reads from a redirection; None where that is not known."""
    expander = script.expander()
    match redirect.operator:
        case "<<<":
            text = expander.value(redirect.target)
            return text + Text.at(redirect.place, "\n")
        case "<<" | "<<-":
            if redirect.body is None:
                return None
            try:
                return Text.at(redirect.body.place, "") + expander.value(redirect.body)
            except LeftError:
                script.not_followed(redirect.place, "a here-document that bash refuses")
        case "<":
            parts = redirect.target.parts
            if len(parts) == 1 and isinstance(parts[0], Substitution) and parts[0].arrow == "<":
                return subshells.printed_by(script, parts[0])
            return content(script, expander.value(redirect.target))
        case _:
            return None


def content(script: ShellScript, path: Text) -> Text | None:
    """What a file holds that the script wrote or that was sent with it."""
    if path.unknown is not None:
        return None
    name = str(path)
    if name == "/dev/null":
        return Text(tuple(Piece("", piece.file, piece.line) for piece in path.pieces[:1]))
    whole = script.state.files.get(name)
    if whole is None and not script.state.has_written(name.rpartition("/")[2]):
        sent = script.file(name)
        whole = None if sent is None else Piece(sent.content, sent.path, 1)
    if whole is None or whole.unknown is not None:
        return None
    script.budget.spend(len(whole.text))
    return Text(tuple(lines_of(whole)) or (whole,))


def written_to(script: ShellScript, redirect: Redirect, before: Target | None) -> Target | None:
    """Where a command prints to behind this redirection; None where it stays as it is."""
    operator, place = redirect.operator, redirect.place
    text = script.expander().value(redirect.target)
    name = str(text)
    if operator == ">&":
        return _duplicated(script, redirect, name, before)
    if redirect.descriptor == "2":
        if text.unknown is None and not name.startswith("/dev/"):
            _write(script, name, _lost(name, place, "is written in parts"))
        return before
    kept = operator in (">", ">|") and before is None
    target = Target(text, place, kept=kept)
    if operator in _APPENDS:
        target = Target(text, place, kept=False)
    return target


def _duplicated(
    script: ShellScript, redirect: Redirect, name: str, before: Target | None
) -> Target | None:
    """n>&m: errors go where the rest goes, or the rest goes where errors go."""
    if not name.isdecimal() and name != "-":
        return Target(Text.at(redirect.place, name), redirect.place, kept=False)
    if redirect.descriptor == "2":
        if before is None and script.printed is not None:
            script.emit(
                Text.at(redirect.place, "$(...)", "errors of commands are known when they run")
            )
        elif before is not None:
            return Target(before._path, redirect.place, kept=False)
        return before
    return Target(None, redirect.place, kept=False)


def _lost(path: str, place: Piece, what: str) -> Piece:
    where = place.file if place.line is None else f"{place.file}:{place.line}"
    return Piece("", place.file, place.line, f"{path} {what} at {where}; send it as a file")


def content_of(path: str, text: Text) -> Piece:
    """A file's content at the place of its first line, or why nothing is known of it."""
    first = text.pieces[0]
    return Piece(str(text), first.file, first.line, _why_not_known(path, text))


def _why_not_known(path: str, text: Text) -> str | None:
    first = text.pieces[0]
    if first.line is None:
        return f"{path} is written by a text without lines; send it as a file"
    where = f"{path} is written at {first.file}:{first.line}"
    if text.unknown is not None:
        return f"{where} with what is not known: {text.unknown}"
    line = first.line
    for piece in text.pieces:
        ends = piece.text.count("\n")
        if ends > 1 or (ends == 1 and (piece.file, piece.line) != (first.file, line)):
            if piece is text.pieces[-1] and str(text).count("\n") == 1:
                break
            return f"{where} with lines that are joined or broken; send it as a file"
        line += ends
    return None
