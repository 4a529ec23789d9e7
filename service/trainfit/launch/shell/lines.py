"""Lines of bash's grammar: words between blanks, assignments, redirections, here-documents."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Sequence
from dataclasses import replace

from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.scanner import MisreadError, Scanner
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.syntax import Assignment, Items, Literal, Redirect, Word
from trainfit.launch.shell.text import Text

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?=(\[)|\+?=)")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_BARE = re.compile(r"[^\s;&|()<>'\"\\$`\ue000]+")
_REDIRECT = re.compile(
    r"(?P<fd>[0-9]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
    r"(?P<operator><<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|(?P<both>&>>|&>)"
)


class Lines(Scanner, ABC):
    """Reads what commands are made of, and goes on past the ends of lines."""

    def __init__(self, source: Source, depth: int = 0) -> None:
        super().__init__(source, depth)
        self.own: dict[str, bool] = {}
        self._pending: list[Redirect] = []
        self._documents = 0
        """Here-documents that have been read."""
        self.extended: Piece | None = None
        """Where the line asks for the option extglob."""
        self._in_condition = False

    def _seen(self) -> str:
        found = _BARE.match(self.text, self.at)
        return found[0][:20] if found else self.sign()

    def _operator(self) -> str:
        """& and ; where they stand alone, between two commands."""
        two = self.text[self.at : self.at + 2]
        return two[:1] if two[:1] in ("&", ";") and two not in ("&&", ";;", "&>", ";&") else ""

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        if self.sign() == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _newline(self) -> None:
        """Past the end of a line, and past the here-documents that begin below it."""
        if self.sign() != "\n":
            if self._pending:
                raise self.fail("has a here-document without lines")
            return
        self.at += 1
        pending, self._pending = self._pending, []
        for redirect in pending:
            self._document(redirect)

    def _lines(self) -> None:
        """Past blanks, comments and ends of lines."""
        self._blanks()
        while self.sign() == "\n":
            self._newline()
            self._blanks()

    def _document(self, redirect: Redirect) -> None:
        """The lines of a here-document, which ends at its word."""
        self._documents += 1
        end, quoted = self._delimiter(redirect.target)
        pieces: list[Piece] = []
        joined = False
        while self.at < len(self.text):
            start = self.at
            found = self.text.find("\n", start)
            self.at = len(self.text) if found < 0 else found + 1
            if redirect.operator == "<<-":
                while self.text[start : start + 1] == "\t":
                    start += 1
            line = self.text[start : self.at]
            if not joined and line.rstrip("\n") == end:
                break
            pieces += self.source.cut(start, self.at)
            slashes = len(line.rstrip("\n")) - len(line.rstrip("\n").rstrip("\\"))
            joined = not quoted and slashes % 2 == 1
        place = pieces[0] if pieces else redirect.place
        empty = replace(place, text="", unknown=None)
        if quoted or not pieces:
            redirect.body = Word((Literal(tuple(pieces) or (empty,), quoted=True),), empty)
        else:
            with self.deeper():
                scanner = self.within(Source.of(Text(tuple(pieces))))
                redirect.body = scanner.here()
            self.mentioned += scanner.mentioned

    def _delimiter(self, word: Word) -> tuple[str, bool]:
        """The word that ends a here-document, and whether a part of it is quoted."""
        text, quoted = "", False
        for part in word.parts:
            inner = [part]
            if not isinstance(part, Literal):
                inner, quoted = list(getattr(part, "parts", ())), True
            for each in inner:
                if not isinstance(each, Literal):
                    raise MisreadError(word.place, "has a here-document that is not read")
                quoted = quoted or each.quoted
                text += "".join(piece.text for piece in each.pieces)
        return text, quoted

    def _keyword(self) -> str:
        """The unquoted word that stands here and ends at a sign that ends words."""
        found = _BARE.match(self.text, self.at)
        if found is None:
            return ""
        after = self.text[found.end() : found.end() + 1]
        return found[0] if after in ("", " ", "\t", "\n", *";&|()<>") else ""

    def _past_keyword(self, keyword: str) -> None:
        self._lines()
        if self._keyword() != keyword:
            raise self.fail(f"lacks a {keyword}")
        self.at += len(keyword)

    def _redirect(self) -> Redirect | None:
        found = _REDIRECT.match(self.text, self.at)
        if found is None:
            return None
        place, operator = self.place(), found["operator"] or found["both"]
        self.at = found.end()
        self._blanks()
        target = self.word()
        if not target.parts:
            raise self.fail(f"has a {operator} without a target")
        redirect = Redirect(operator, found["fd"] or "", target, place)
        if operator in ("<<", "<<-"):
            self._pending.append(redirect)
        return redirect

    def _patterned(self) -> Word:
        """A word in which @(...) and the like are patterns."""
        word = self.word()
        parts = list(word.parts)
        while self.sign() == "(" and parts and self.text[self.at - 1] in "?*+@!":
            if not self._in_condition and self.extended is None:
                self.extended = self.place()
            with self.deeper():
                parts += self._grouped()
            parts += self.word().parts
        return replace(word, parts=tuple(parts))

    def _grouped(self) -> list[Literal]:
        start, depth = self.at, 0
        while True:
            sign = self.sign()
            if sign in ("", "\n", *"'\"\\$`"):
                raise self.fail("has a pattern that is not read")
            depth += {"(": 1, ")": -1}.get(sign, 0)
            self.at += 1
            if depth == 0:
                return [self._literal(start, self.at, quoted=False)]

    def _give(self, assignments: Sequence[Assignment]) -> None:
        """Note what is given a value of its own: not X in X=$X or X=${X:-1}, which say that it may
        come from outside, nor what is set for a single command.
        """
        for each in assignments:
            self.own[each.name] = self.own.get(each.name, True) and each.own

    def _assignment(self) -> Assignment | None:
        """name=value, if that is what stands here."""
        found = _ASSIGNED.match(self.text, self.at)
        if found is None:
            return None
        start, place, before = self.at, self.place(), len(self.mentioned)
        self.at = found.end()
        index = None
        if found[2]:
            self.at += 1
            index = self.subscript()
        adds = self.follows("+=")
        if not adds and not self.follows("="):
            self.at = start
            return None
        self.at += 2 if adds else 1
        value = self._value()
        own = found[1] not in self.mentioned[before:]
        return Assignment(found[1], index, adds, value, place, own)

    def _value(self) -> Word | Items:
        if self.sign() != "(":
            return self.word()
        self.at += 1
        items: list[Assignment | Word] = []
        with self.deeper():
            while True:
                self._lines()
                if self.sign() == ")":
                    self.at += 1
                    return Items(tuple(items))
                place = self.place()
                keyed = self._keyed(place) if self.sign() == "[" else None
                if keyed is not None:
                    items.append(keyed)
                    continue
                word = self.word()
                if not word.parts:
                    raise self.fail("has an array that is not ended")
                items.append(word)

    def _keyed(self, place: Piece) -> Assignment | None:
        """[index]=value in an array."""
        start = self.at
        self.at += 1
        try:
            index = self.subscript()
        except MisreadError:
            index = None
        adds = self.follows("+=")
        if index is None or not (adds or self.follows("=")):
            self.at = start
            return None
        self.at += 2 if adds else 1
        return Assignment("", index, adds, self.word(), place)
