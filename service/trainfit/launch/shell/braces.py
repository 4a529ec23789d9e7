"""Brace expansion, which comes before every other: {a,b} and {1..4}."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.syntax import Literal, Part, Word

_NUMBERS = re.compile(r"([-+]?\d{1,18})\.\.([-+]?\d{1,18})(?:\.\.([-+]?\d{1,18}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.([-+]?\d{1,18}))?")

Sign = Part
"""One unquoted sign as a literal, or a part that braces do not look into."""


def expanded(word: Word, spend: Callable[[int], None]) -> Sequence[Word]:
    """The words that a word with braces stands for. `spend` hears how many, before they are."""
    if not any(_bare(part) is not None and "{" in (_bare(part) or "") for part in word.parts):
        return (word,)
    written = "".join(_bare(part) or "" for part in word.parts)
    spend(len(written) * written.count("{"))
    found = list(_expanded(list(_signs(word)), spend))
    if len(found) == 1 and len(found[0]) == sum(1 for _ in _signs(word)):
        return (word,)
    return [Word(tuple(_merged(signs)), word.place) for signs in found if signs]


def _bare(part: Part) -> str | None:
    """The text of a literal that is known and not quoted."""
    if not isinstance(part, Literal) or part.quoted:
        return None
    if any(piece.unknown is not None for piece in part.pieces):
        return None
    return "".join(piece.text for piece in part.pieces)


def _signs(word: Word) -> Iterator[Sign]:
    for part in word.parts:
        if _bare(part) is None or not isinstance(part, Literal):
            yield part
            continue
        for piece in part.pieces:
            for sign in piece.text:
                yield Literal((Piece(sign, piece.file, piece.line),), quoted=False)


def _merged(signs: Sequence[Sign]) -> Iterator[Part]:
    """Signs that stand side by side, in one literal again."""
    held: Piece | None = None
    for sign in signs:
        if _bare(sign) is None or not isinstance(sign, Literal):
            if held is not None:
                yield Literal((held,), quoted=False)
            held = None
            yield sign
            continue
        (piece,) = sign.pieces
        if held is not None and (held.file, held.line) == (piece.file, piece.line):
            held = Piece(held.text + piece.text, held.file, held.line)
        else:
            if held is not None:
                yield Literal((held,), quoted=False)
            held = piece
    if held is not None:
        yield Literal((held,), quoted=False)


def _expanded(signs: list[Sign], spend: Callable[[int], None]) -> Iterator[list[Sign]]:
    """Every word that these signs stand for, the first brace varying slowest."""
    spend(len(signs))
    for start, sign in enumerate(signs):
        if _bare(sign) != "{":
            continue
        spend(len(signs) - start)
        found = _group(signs, start)
        if found is None:
            continue
        alternatives, end = found
        chosen = alternatives if isinstance(alternatives, list) else _sequence(*alternatives)
        rests: list[list[Sign]] | None = None
        for alternative in chosen:
            if rests is None:
                rests = list(_expanded(signs[end + 1 :], spend))
            inner = _expanded(alternative, spend)
            for middle in inner:
                for rest in rests:
                    spend(start + len(middle) + len(rest))
                    yield [*signs[:start], *middle, *rest]
        return
    yield signs


_Range = tuple[int, int, int, int, bool, Piece]


def _group(signs: list[Sign], start: int) -> tuple[list[list[Sign]] | _Range, int] | None:
    """What the brace that opens here holds, and where it ends; None where it is a mere sign."""
    depth, parts = 0, [list[Sign]()]
    for at in range(start + 1, len(signs)):
        text = _bare(signs[at])
        if text == "}" and depth == 0:
            if len(parts) > 1:
                return parts, at
            numbers = _range(parts[0])
            return None if numbers is None else (numbers, at)
        if text == "," and depth == 0:
            parts.append([])
            continue
        depth += {"{": 1, "}": -1}.get(text or "", 0)
        parts[-1].append(signs[at])
    return None


def _range(signs: Sequence[Sign]) -> _Range | None:
    """First, last, step, width, whether of letters, and the place of {1..4}."""
    texts = [_bare(sign) for sign in signs]
    if not texts or any(text is None for text in texts):
        return None
    text = "".join(text or "" for text in texts)
    first = signs[0]
    assert isinstance(first, Literal)
    place = replace(first.pieces[0], text="")
    if found := _NUMBERS.fullmatch(text):
        ends, width = (found[1], found[2]), 0
        if any(re.match(r"[-+]?0\d", end) for end in ends):
            width = max(map(len, ends))
        return int(ends[0]), int(ends[1]), _step(found[3]), width, False, place
    if found := _LETTERS.fullmatch(text):
        return ord(found[1]), ord(found[2]), _step(found[3]), 0, True, place
    return None


def _step(text: str | None) -> int:
    return abs(int(text or 1)) or 1


def _sequence(
    first: int, last: int, step: int, width: int, letters: bool, place: Piece
) -> Iterator[list[Sign]]:
    way = 1 if last >= first else -1
    for number in range(first, last + way, way * step):
        text = chr(number) if letters else f"{number:0{width}d}"
        piece = Piece(text, place.file, place.line)
        yield [Literal((piece,), quoted=letters and not text.isalnum())]
