"""What echo and printf print."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from trainfit.launch.shell.fields import put_together
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.text import NotKnownError, Text, joined

MAX_WIDTH = 4096

_OPTIONS = re.compile(r"-[neE]+")
_ECHOED = re.compile(
    r"\\(?:([abeEfnrtv\\c])|0([0-7]{0,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4}))"
)
_WRITTEN = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4}))"
)
_SIGNS: Mapping[str, str] = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_DIRECTIVE = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|-?\d*))?(?P<kind>.|\Z)",
    re.DOTALL,
)
_NUMBER = re.compile(r"\s*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_REAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?")
_SAFE = re.compile(r"[A-Za-z0-9_./:@%+=-]+")


def echoed(words: Sequence[Text], place: Piece) -> Text:
    """What echo prints. Raises NotKnownError."""
    ends, escapes, at = True, False, 0
    while at < len(words) and _OPTIONS.fullmatch(str(words[at])):
        for letter in str(words[at])[1:]:
            ends = ends and letter != "n"
            escapes = letter == "e" if letter in "eE" else escapes
        at += 1
    text = joined(words[at:], Text.at(place, " "))
    if escapes:
        text, stops = _unescaped(text)
        ends = ends and not stops
    return text + Text.at(place, "\n") if ends else text


def _unescaped(text: Text) -> tuple[Text, bool]:
    """Text with the escapes of echo -e, and whether one of them ends it."""
    pieces: list[Piece] = []
    for piece in text.pieces:
        if piece.unknown is not None:
            pieces.append(piece)
            continue
        head, stops = _until_stop(piece.text)
        pieces.append(Piece(_ECHOED.sub(_escape, head), piece.file, piece.line))
        if stops:
            return Text(tuple(pieces)), True
    return Text(tuple(pieces)), False


def _until_stop(text: str) -> tuple[str, bool]:
    found = re.match(r"((?:[^\\]|\\[^c])*?)\\c", text, re.DOTALL)
    return (found[1], True) if found else (text, False)


def _escape(found: re.Match[str]) -> str:
    sign, octal, hexadecimal, short = found.groups()
    if sign is not None:
        return _SIGNS.get(sign, sign)
    if octal is not None:
        return chr(int(octal or "0", 8) & 0xFF)
    return chr(int(hexadecimal or short, 16))


def printed(words: Sequence[Text], place: Piece) -> tuple[Text, int]:
    """What printf prints, and its status. Raises NotKnownError."""
    for text in words:
        if text.spreads:
            text.known()
    return _Printing(words[0].known(), words[1:], place).all()


class _Printing:
    """One call of printf: the format is used again while there are arguments."""

    def __init__(self, format_: str, arguments: Sequence[Text], place: Piece) -> None:
        self._format = format_
        self._directives = list(_DIRECTIVE.finditer(format_))
        self._arguments = list(arguments)
        self._place = place
        self._pieces: list[Piece] = []
        self._status = 0

    def all(self) -> tuple[Text, int]:
        while True:
            left = len(self._arguments)
            if self._once() or not self._arguments or len(self._arguments) == left:
                break
        pieces = tuple(put_together(self._pieces))
        text = Text(pieces or (Piece("", self._place.file, self._place.line),))
        return text, self._status

    def _once(self) -> bool:
        """The format once; whether \\c ends it."""
        at = 0
        for found in self._directives:
            if found.start() < at:
                continue
            if at < found.start():
                self._put(_WRITTEN.sub(_escape, self._format[at : found.start()]))
            at = found.end()
            if found["kind"] == "%":
                self._put("%")
            elif self._directive(found):
                return True
        if at < len(self._format):
            self._put(_WRITTEN.sub(_escape, self._format[at:]))
        return False

    def _put(self, text: str) -> None:
        if text:
            self._pieces.append(Piece(text, self._place.file, self._place.line))

    def _next(self) -> Text | None:
        return self._arguments.pop(0) if self._arguments else None

    def _size(self, written: str | None) -> int | None:
        if written == "*":
            given = self._next()
            return self._bounded(0 if given is None else self._number(given.known()))
        return None if written is None else self._bounded(int(written[:9] or 0))

    def _bounded(self, size: int) -> int:
        if abs(size) > MAX_WIDTH:
            raise NotKnownError(f"printf with a width above {MAX_WIDTH} is not read")
        return size

    def _directive(self, found: re.Match[str]) -> bool:
        flags, kind = found["flags"], found["kind"]
        width, precision = self._size(found["width"]), self._size(found["precision"])
        if width is not None and width < 0:
            flags, width = f"{flags}-", -width
        if precision is not None and precision < 0:
            precision = None
        given = self._next()
        if kind == "s" and given is not None and width is None and precision is None:
            self._pieces += given.pieces
            return False
        text = "" if given is None else given.known()
        stops = False
        if kind == "b":
            text, stops = _until_stop(text)
            text = _ECHOED.sub(_escape, text)
        if kind in "sb" and kind:
            self._put(_padded(text[:precision] if precision is not None else text, flags, width))
        elif kind == "c":
            self._put(_padded(text[:1], flags, width))
        elif kind == "q" and _SAFE.fullmatch(text):
            self._put(_padded(text, flags, width))
        elif kind and kind in _INTEGERS:
            number = 0 if given is None else self._number(text)
            self._put(_integer(number, kind, flags, width, precision))
        elif kind and kind in "feEgG" and (not text or _REAL.fullmatch(text)):
            self._put(_real(text, found, flags, width, precision))
        else:
            raise NotKnownError(f"printf with {found[0]} is not read")
        return stops

    def _number(self, text: str) -> int:
        """A number as C reads it; of what is none, what it begins with, and the status is 1."""
        if text[:1] in ("'", '"'):
            return ord(text[1]) if len(text) > 1 else 0
        found = _NUMBER.match(text)
        if found is None or found.end() != len(text):
            self._status = 1
        if text == "" or found is None:
            self._status = 0 if text == "" else 1
            return 0
        if len(found[2]) > 20:
            raise NotKnownError(f"{text} is too large a number")
        digits = found[2].lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
        value = int(digits, base)
        value = -value if found[1] == "-" else value
        if not -(1 << 63) <= value < 1 << 63:
            raise NotKnownError(f"{text} is too large a number")
        return value


_INTEGERS: Mapping[str, Callable[[int], str]] = {
    "d": str,
    "i": str,
    "u": lambda number: str(number % (1 << 64)),
    "o": lambda number: f"{number % (1 << 64):o}",
    "x": lambda number: f"{number % (1 << 64):x}",
    "X": lambda number: f"{number % (1 << 64):X}",
}


def _padded(text: str, flags: str, width: int | None) -> str:
    return text.ljust(width or 0) if "-" in flags else text.rjust(width or 0)


def _integer(number: int, kind: str, flags: str, width: int | None, precision: int | None) -> str:
    if "#" in flags and kind in "oxX":
        raise NotKnownError("printf with # is not read")
    digits = _INTEGERS[kind](number)
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    if not sign and kind in "di":
        sign = "+" if "+" in flags else " " if " " in flags else ""
    if precision is not None:
        digits = "" if precision == 0 and number == 0 else digits.rjust(precision, "0")
    elif "0" in flags and "-" not in flags:
        digits = digits.rjust((width or 0) - len(sign), "0")
    return _padded(sign + digits, flags, width)


def _real(
    text: str, found: re.Match[str], flags: str, width: int | None, precision: int | None
) -> str:
    """A real number; bash calculates with more digits than Python, so only a few are known."""
    digits = len(re.sub(r"[eE].*|\D", "", text))
    if digits > 15 or (precision or 0) > 9:
        raise NotKnownError(f"printf with {found[0]} of {text} is not read")
    value = float(text or 0)
    if abs(value) >= 1e15 or _is_halfway(text, found["kind"], precision):
        raise NotKnownError(f"printf with {found[0]} of {text} is not read")
    kept = "".join(dict.fromkeys(flag for flag in flags if flag in "+ 0#-"))
    size = "" if width is None else str(width)
    after = "" if precision is None else f".{precision}"
    return f"%{kept}{size}{after}{found['kind']}" % value


def _is_halfway(text: str, kind: str, precision: int | None) -> bool:
    """Whether it lies in the middle of two that are printed, so that the last bit decides."""
    if kind != "f":
        return False
    fraction = text.partition(".")[2]
    return len(fraction) > (6 if precision is None else precision) and fraction.endswith("5")
