"""read, mapfile and getopts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainfit.launch.shell import arithmetic
from trainfit.launch.shell.fields import BLANKS
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import Variable
from trainfit.launch.shell.text import Array, NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

_LETTER = "OPTIND letter"
"""Where getopts is in a word of several letters; no name of a script."""


class _Reading(NamedTuple):
    options: dict[str, str]
    names: Sequence[str]


def read(script: ShellScript, words: Sequence[Text], place: Piece) -> Status:
    """Sets the variables that it names to a line of what it reads."""
    options, names = _options(words, "adnNptui")
    if "a" in options:
        names = [options["a"]]
    targets = [name for name in names or ["REPLY"] if name.isidentifier()]
    try:
        if options.keys() & set("nNuti") or script.state.stdin is None or script.loosely:
            raise NotKnownError(f"what is read at {script.where(place)} is known only when it runs")
        line, rest, ended = _line(script.state.stdin, options.get("d", "\n")[:1] or "\0")
        script.state.stdin = rest
        _give(script, line, options, names, place)
    except NotKnownError as why:
        script.forget(targets, place, str(why))
        return str(why)
    return 0 if ended else 1


def _options(words: Sequence[Text], valued: str) -> _Reading:
    options: dict[str, str] = {}
    at = 0
    texts = [str(text) for text in words]
    while at < len(texts) and texts[at].startswith("-") and len(texts[at]) > 1:
        letters, at = texts[at][1:], at + 1
        if letters == "-":
            break
        for index, letter in enumerate(letters):
            options[letter] = ""
            if letter in valued:
                attached = letters[index + 1 :]
                if not attached and at < len(texts):
                    attached, at = texts[at], at + 1
                options[letter] = attached
                break
    return _Reading(options, texts[at:])


def _line(text: Text, end: str) -> tuple[str, Text, bool]:
    """The first line, what is left, and whether anything ended it. Raises NotKnownError."""
    line = ""
    for index, piece in enumerate(text.pieces):
        if piece.unknown is not None:
            raise NotKnownError(piece.unknown)
        head, found, tail = piece.text.partition(end)
        line += head
        if found:
            rest = (Piece(tail, piece.file, piece.line), *text.pieces[index + 1 :])
            return line, Text(rest), True
    last = text.pieces[-1]
    return line, Text((Piece("", last.file, last.line),)), False


def _give(
    script: ShellScript, line: str, options: dict[str, str], names: Sequence[str], place: Piece
) -> None:
    if "r" not in options and "\\" in line:
        raise NotKnownError("a line with \\ is read only with read -r")
    for name in names:
        variable = script.state.variables.get(name)
        if variable is not None and variable.readonly:
            raise NotKnownError(f"{name} cannot be changed")
    if not names:
        script.assign("REPLY", Text.at(place, line), place)
        return
    found = script.state.get("IFS")
    if isinstance(found, Array) or (found is not None and found.unknown is not None):
        raise NotKnownError("IFS is not known")
    separators = BLANKS if found is None else str(found)
    if "a" in options:
        words = split(line, separators, None)
        script.assign(names[0], Array.of(Text.at(place, word) for word in words), place)
        return
    words = split(line, separators, len(names))
    for name, word in zip(names, [*words, *[""] * len(names)], strict=False):
        script.assign(name, Text.at(place, word), place)


def split(line: str, separators: str, most: int | None) -> list[str]:
    """A line in words; the last of the most there may be has the rest of the line."""
    blanks = "".join(sign for sign in separators if sign in BLANKS)
    words: list[str] = []
    rest = line.lstrip(blanks) if blanks else line
    while rest:
        if most is not None and len(words) == most - 1:
            one = _first(rest, separators, blanks)
            words.append(one[0] if not one[1] else rest.rstrip(blanks) if blanks else rest)
            break
        word, rest = _first(rest, separators, blanks)
        words.append(word)
    return words


def _first(text: str, separators: str, blanks: str) -> tuple[str, str]:
    """The first word, and what stands behind its separator."""
    end = next((at for at, sign in enumerate(text) if sign in separators), len(text))
    rest = text[end:]
    rest = rest.lstrip(blanks) if blanks else rest
    if rest and rest[0] in separators and rest[0] not in blanks:
        rest = rest[1:].lstrip(blanks) if blanks else rest[1:]
    return text[:end], rest


def mapfile(script: ShellScript, words: Sequence[Text], place: Piece) -> Status:
    """Sets an array to the lines of what is read."""
    options, names = _options(words, "dnOsuCc")
    name = names[0] if names else "MAPFILE"
    stdin = script.state.stdin
    try:
        if options.keys() - {"t"} or stdin is None or script.loosely:
            raise NotKnownError(f"what is read at {script.where(place)} is known only when it runs")
        text = stdin.known()
    except NotKnownError as why:
        script.forget([name], place, str(why))
        return str(why)
    lines = text.split("\n")
    ends = "" if "t" in options else "\n"
    items = [f"{line}{ends}" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    script.state.stdin = Text.at(place, "")
    script.assign(name, Array.of(Text.at(place, item) for item in items), place)
    return 0


def getopts(script: ShellScript, words: Sequence[Text], place: Piece) -> Status:
    """The next option of the parameters, or of the words that it is given."""
    name = str(words[1]) if len(words) > 1 else "?"
    try:
        if script.loosely:
            raise NotKnownError("it runs in a way that is not known")
        return _option(script, words[0].known(), name, words[2:], place)
    except NotKnownError as why:
        script.forget([name, "OPTARG", "OPTIND"], place, str(why))
        return str(why)


def _option(
    script: ShellScript, known: str, name: str, given: Sequence[Text], place: Piece
) -> Status:
    state = script.state
    if not given:
        state.count()
        given = state.parameters or ()
    arguments = [text.known() for text in given]
    index, letter = _position(script)
    argument = arguments[index] if index < len(arguments) else None
    if letter == 0 and (argument is None or argument in ("-", "--") or argument[:1] != "-"):
        _moved(script, index + (argument == "--"), 0, place)
        script.assign(name, Text.at(place, "?"), place)
        state.drop("OPTARG")
        return 1
    if argument is None:
        raise NotKnownError("the parameters change while getopts reads them")
    letter = letter or 1
    option, silent = argument[letter], known.startswith(":")
    at = known.removeprefix(":").find(option)
    takes = known.removeprefix(":")[at + 1 : at + 2] == ":"
    rest = argument[letter + 1 :]
    value = None
    if at < 0 or option == ":":
        value, option = option if silent else None, "?"
    elif takes and rest:
        value, rest = rest, ""
    elif takes and index + 1 < len(arguments):
        index, value = index + 1, arguments[index + 1]
    elif takes:
        value, option = (option, ":") if silent else (None, "?")
    _moved(script, index if rest else index + 1, letter + 1 if rest else 0, place)
    script.assign(name, Text.at(place, option), place)
    state.drop("OPTARG")
    if value is not None:
        script.assign("OPTARG", Text.at(place, value), place)
    return 0


def _position(script: ShellScript) -> tuple[int, int]:
    """The word and the letter in it at which getopts goes on. Raises NotKnownError."""
    found = script.state.get("OPTIND")
    text = "1" if found is None else found.known() if isinstance(found, Text) else ""
    number = arithmetic.integer(text)
    if number is None:
        raise NotKnownError("OPTIND is not a number")
    held = script.state.variables.get(_LETTER, Variable(None)).value
    word, _, letter = (held.known() if isinstance(held, Text) else "0:0").partition(":")
    goes_on = int(word) == number and isinstance(found, Text)
    return max(number, 1) - 1, int(letter) if goes_on else 0


def _moved(script: ShellScript, index: int, letter: int, place: Piece) -> None:
    script.assign("OPTIND", Text.at(place, str(index + 1)), place)
    script.state.put(_LETTER, Text.at(place, f"{index + 1}:{letter}"))
