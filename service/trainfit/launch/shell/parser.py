"""Commands of bash's grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trainfit.launch.shell.condition_syntax import Conditions
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.scanner import MisreadError
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.syntax import (
    Assignment,
    Background,
    Calculation,
    Case,
    CaseItem,
    Chain,
    CommandList,
    CommandPipeline,
    CountingFor,
    Definition,
    For,
    If,
    Node,
    ParsedScript,
    Redirect,
    Redirected,
    Simple,
    Subshell,
    While,
    Word,
)

DECLARING = frozenset(("declare", "export", "local", "readonly", "typeset"))
"""Commands whose words are read like assignments."""

_ENDING = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
"""Keywords that end the commands before them."""


class Parser(Conditions):
    """Reads a text as bash does: one complete command after the other."""

    def program(self) -> ParsedScript:
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
        return ParsedScript(tuple(commands), tuple(extended), own, misread)

    def within(self, source: Source) -> Parser:
        parser = Parser(source, self._depth)
        parser.own = self.own
        return parser

    def whole(self) -> CommandList:
        found: list[Node] = []
        while (command := self._line()) is not None:
            found.append(command)
        return CommandList(tuple(found))

    def substituted(self) -> CommandList:
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
                return found[0] if len(found) == 1 else CommandList(tuple(found))

    def _block(self, *ends: str, may_be_empty: bool = False) -> CommandList:
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
        return CommandList(tuple(found))

    def _ends(self, ends: tuple[str, ...]) -> bool:
        if ")" in ends and self.sign() == ")":
            return True
        if ";;" in ends and (self.follows(";;") or self.follows(";&")):
            return True
        return self._keyword() in ends

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
        return CommandPipeline(tuple(commands), negated, place)

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

    def _do(self) -> CommandList:
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
