"""Commands of bash's grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.scanner import MisreadError, Scanner
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.syntax import (
    Asked,
    Assignment,
    Background,
    Block,
    Both,
    Calculation,
    Case,
    CaseItem,
    Chain,
    Condition,
    CountingFor,
    Definition,
    Either,
    For,
    If,
    Items,
    Literal,
    Node,
    Not,
    Pipeline,
    Program,
    Redirect,
    Redirected,
    Simple,
    Subshell,
    Test,
    While,
    Word,
)
from trainfit.launch.shell.text import Text

DECLARING = frozenset(("declare", "export", "local", "readonly", "typeset"))
"""Commands whose words are read like assignments."""

_ENDING = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
"""Keywords that end the commands before them."""

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?=(\[)|\+?=)")
_BARE = re.compile(r"[^\s;&|()<>'\"\\$`\ue000]+")
_REDIRECT = re.compile(
    r"(?P<fd>[0-9]*|\{[A-Za-z_][A-Za-z0-9_]*\})"
    r"(?P<operator><<<|<<-|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|(?P<both>&>>|&>)"
)
_UNARY = re.compile(r"-[a-zA-Z]")
_QUESTIONS = frozenset(
    ("=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef")
)


class Parser(Scanner):
    """Reads a text as bash does: one complete command after the other."""

    def __init__(self, source: Source, depth: int = 0) -> None:
        super().__init__(source, depth)
        self.own: dict[str, bool] = {}
        self._pending: list[Redirect] = []
        self._documents = 0
        """Here-documents that have been read."""
        self.extended: Piece | None = None
        """Where the line asks for the option extglob."""
        self._in_condition = False

    def program(self) -> Program:
        """All of the text, or what of it comes before what does not read as bash."""
        commands: list[Node] = []
        extended: list[Piece | None] = []
        misread = None
        try:
            while (command := self._line()) is not None:
                commands.append(command)
                extended.append(self.extended)
                self.extended = None
        except MisreadError as error:
            misread = (error.place, error.message)
        own = frozenset(name for name, given in self.own.items() if given)
        return Program(tuple(commands), tuple(extended), own, misread)

    def within(self, source: Source) -> Parser:
        parser = Parser(source, self._depth)
        parser.own = self.own
        return parser

    def whole(self) -> Block:
        found: list[Node] = []
        while (command := self._line()) is not None:
            found.append(command)
        return Block(tuple(found))

    def substituted(self) -> Block:
        pending, self._pending = self._pending, []
        place, documents = self.place(), self._documents
        block = self._block(")", may_be_empty=True)
        if self._pending:
            raise self.fail("has a here-document that is not ended")
        if self._documents > documents and len(block.commands) > 1:
            # bash 5.2 loses what separates the commands when a function with such a text is called
            why = (
                "commands behind a here-document in $(...), which releases of bash read differently"
            )
            raise self.not_followed(place, f"{why}, are not followed")
        self._pending = pending
        return block

    def _line(self) -> Node | None:
        """The commands up to the end of a line."""
        self._lines()
        if self.at >= len(self.text):
            return None
        found: list[Node] = []
        while True:
            command = self._chain()
            self._blanks()
            if self._operator() == "&":
                self.at += 1
                command = Background(command, self.place())
            elif self._operator() == ";":
                self.at += 1
            elif self.sign() not in ("", "\n"):
                raise self.fail(f"has a {self._seen()} that is not expected")
            found.append(command)
            self._blanks()
            if self.sign() in ("", "\n"):
                self._newline()
                return found[0] if len(found) == 1 else Block(tuple(found))

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

    def _block(self, *ends: str, may_be_empty: bool = False) -> Block:
        """Commands up to a keyword or a sign that ends them."""
        found: list[Node] = []
        with self.deeper():
            self._lines()
            while not self._ends(ends):
                if self.at >= len(self.text):
                    raise self.fail(f"lacks a {ends[-1]}")
                command = self._chain()
                self._blanks()
                operator = self._operator()
                if operator:
                    self.at += 1
                    if operator == "&":
                        command = Background(command, self.place())
                elif self.sign() != "\n" and not self._ends(ends):
                    raise self.fail(f"has a {self._seen()} that is not expected")
                found.append(command)
                self._lines()
        if not found and not may_be_empty:
            raise self.fail(f"has a {self._seen()} that is not expected")
        return Block(tuple(found))

    def _ends(self, ends: tuple[str, ...]) -> bool:
        if ")" in ends and self.sign() == ")":
            return True
        if ";;" in ends and (self.follows(";;") or self.follows(";&")):
            return True
        return self._keyword() in ends

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

    def _chain(self) -> Node:
        place = self.place()
        first = self._pipeline()
        others: list[tuple[str, Node]] = []
        while True:
            self._blanks()
            sign = self.text[self.at : self.at + 2]
            if sign not in ("&&", "||"):
                return Chain(first, tuple(others), place) if others else first
            self.at += 2
            self._lines()
            others.append((sign, self._pipeline()))

    def _pipeline(self) -> Node:
        place, negated, timed = self.place(), False, False
        while (keyword := self._keyword()) in ("!", "time"):
            self.at += len(keyword)
            negated, timed = negated != (keyword == "!"), timed or keyword == "time"
            self._blanks()
            if keyword == "time" and self._keyword() == "-p":
                self.at += 2
                self._blanks()
        commands = [self._command()]
        while True:
            self._blanks()
            if self.sign() != "|" or self.follows("||"):
                break
            self.at += 2 if self.follows("|&") else 1
            self._lines()
            commands.append(self._command())
        if len(commands) == 1 and not negated:
            return commands[0]
        return Pipeline(tuple(commands), negated, place)

    def _command(self) -> Node:
        place = self.place()
        keyword = self._keyword()
        if keyword in _ENDING or keyword == "coproc":
            raise self.fail(f"has a {keyword} that is not expected")
        if keyword == "function":
            return self._function(place)
        if self.follows("((") and (end := self._end_of_arithmetic(2)) is not None:
            expression = self._expression(2, end, "))")
            return self._redirected(Calculation(expression.expression, place), place)
        if self.sign() == "(":
            doubled, documents = self.follows("(("), self._documents
            self.at += 1
            body = self._block(")")
            self._past(")")
            if doubled and self._documents > documents:
                # bash reads what it takes for an expression twice, and misses the document
                raise self.not_followed(place, "a here-document behind (( is not followed")
            return self._redirected(Subshell(body, place), place)
        compound = _COMPOUND.get(keyword)
        if compound is not None:
            self.at += len(keyword)
            return self._redirected(compound(self, place), place)
        return self._simple(place)

    def _redirected(self, command: Node, place: Piece) -> Node:
        redirects: list[Redirect] = []
        self._blanks()
        while (redirect := self._redirect()) is not None:
            redirects.append(redirect)
            self._blanks()
        return Redirected(command, tuple(redirects), place) if redirects else command

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

    def _simple(self, place: Piece) -> Node:
        assignments: list[Assignment] = []
        words: list[Word | Assignment] = []
        redirects: list[Redirect] = []
        while True:
            self._blanks()
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            first = words[0].bare if words and isinstance(words[0], Word) else None
            if not words or first in DECLARING:
                assignment = self._assignment()
                if assignment is not None:
                    (words if words else assignments).append(assignment)
                    continue
            word = self._patterned() if words else self.word()
            if not word.parts:
                break
            words.append(word)
            if len(words) == 1 and not assignments and not redirects and self._opens_function():
                return self._definition(word, place)
        if not (assignments or words or redirects):
            raise self.fail(f"has a {self._seen() or 'line that ends and'} that is not expected")
        declared = [each for each in words if isinstance(each, Assignment)]
        self._give(declared if words else assignments)
        simple = Simple(tuple(assignments), tuple(words), place)
        return Redirected(simple, tuple(redirects), place) if redirects else simple

    def _opens_function(self) -> bool:
        self._blanks()
        if self.sign() != "(":
            return False
        self.at += 1
        self._blanks()
        self._past(")")
        return True

    def _function(self, place: Piece) -> Node:
        self.at += len("function")
        self._blanks()
        name = self.word()
        self._opens_function()
        return self._definition(name, place)

    def _definition(self, word: Word, place: Piece) -> Node:
        name = word.bare
        if name is None:
            raise self.fail("has a function with a name that is not read")
        self._lines()
        if self._keyword() not in _COMPOUND and self.sign() != "(":
            raise self.fail("has a function without a body")
        with self.deeper():
            return Definition(name, self._command(), place)

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

    def _group(self, _place: Piece) -> Node:
        block = self._block("}")
        self.at += 1
        return block

    def _if(self, place: Piece) -> Node:
        branches, otherwise = [], None
        while True:
            condition = self._block("then")
            self._past_keyword("then")
            branches.append((condition, self._block("elif", "else", "fi")))
            keyword = self._keyword()
            self.at += len(keyword)
            if keyword == "else":
                otherwise = self._block("fi")
                self._past_keyword("fi")
            if keyword != "elif":
                return If(tuple(branches), otherwise, place)

    def _while(self, place: Piece, *, until: bool = False) -> Node:
        condition = self._block("do")
        return While(condition, self._do(), until, place)

    def _until_loop(self, place: Piece) -> Node:
        return self._while(place, until=True)

    def _do(self) -> Block:
        self._lines()
        ends = ("do", "done") if self._keyword() == "do" else ("{", "}")
        self._past_keyword(ends[0])
        block = self._block(ends[1])
        self._past_keyword(ends[1])
        return block

    def _for(self, place: Piece, *, selects: bool = False) -> Node:
        self._blanks()
        if self.follows("(("):
            return self._counting(place)
        name = self.word().bare
        if name is None or not name.isidentifier():
            raise self.fail("has a loop without a name")
        self._lines()
        words: list[Word] | None = None
        if self._keyword() == "in":
            self.at += 2
            words = []
            self._blanks()
            while (word := self._patterned()).parts:
                words.append(word)
                self._blanks()
        if self._operator() == ";":
            self.at += 1
        listed = None if words is None else tuple(words)
        return For(name, listed, self._do(), selects, place)

    def _select(self, place: Piece) -> Node:
        return self._for(place, selects=True)

    def _counting(self, place: Piece) -> Node:
        self.at += 2
        start = self.arithmetic(";")
        self._past(";")
        condition = self.arithmetic(";")
        self._past(";")
        step = self.arithmetic(")")
        self._past("))")
        self._blanks()
        if self._operator() == ";":
            self.at += 1
        return CountingFor(start, condition, step, self._do(), place)

    def _case(self, place: Piece) -> Node:
        self._blanks()
        word = self.word()
        self._past_keyword("in")
        items: list[CaseItem] = []
        self._lines()
        while self._keyword() != "esac":
            items.append(self._item())
            self._lines()
        self.at += len("esac")
        return Case(word, tuple(items), place)

    def _item(self) -> CaseItem:
        if self.sign() == "(":
            self.at += 1
        patterns: list[Word] = []
        while True:
            self._blanks()
            pattern = self._patterned()
            if not pattern.parts:
                raise self.fail("lacks a pattern")
            patterns.append(pattern)
            self._blanks()
            if self.sign() != "|":
                break
            self.at += 1
        self._past(")")
        body = self._block(";;", "esac", may_be_empty=True)
        end = next((each for each in (";;&", ";;", ";&") if self.follows(each)), "")
        self.at += len(end)
        return CaseItem(tuple(patterns), body, end or ";;")

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
                return Asked(operator, (self._tested(),))
        self._blanks()
        sign = self._keyword() or self.sign()
        if sign not in _QUESTIONS:
            if not self._ends_test():
                raise self.fail(f"has a {self._seen()} that is not expected")
            return Asked("", (word,))
        self.at += len(sign)
        self._blanks()
        other = self.regular() if sign == "=~" else self._tested()
        return Asked(sign, (word, other))

    def _tested(self) -> Word:
        word = self._patterned()
        if not word.parts or word.bare == "]]":
            raise self.fail("has a condition that is not read")
        return word

    def _ends_test(self) -> bool:
        at_end = self.follows("&&") or self.follows("||") or self.sign() in (")", "\n")
        return at_end or self._keyword() == "]]"


_COMPOUND: Mapping[str, Callable[[Parser, Piece], Node]] = {
    "[[": Parser._condition,
    "case": Parser._case,
    "for": Parser._for,
    "if": Parser._if,
    "select": Parser._select,
    "until": Parser._until_loop,
    "while": Parser._while,
    "{": Parser._group,
}
