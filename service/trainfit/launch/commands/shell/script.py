"""The statements of a script, followed in their order; no command of it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, NamedTuple, NoReturn, Protocol

from trainfit.launch.commands.shell import arithmetic, conditions, files
from trainfit.launch.commands.shell.arithmetic import RefusedError
from trainfit.launch.commands.shell.builtins import BUILTINS, SUCCEEDING
from trainfit.launch.commands.shell.declarations import declare
from trainfit.launch.commands.shell.errors import ShellError
from trainfit.launch.commands.shell.expansion import UNNAMED, Expander
from trainfit.launch.commands.shell.flow import LeftError, Status, UnclearError, Way
from trainfit.launch.commands.shell.parameters import subscript
from trainfit.launch.commands.shell.parser import DECLARING, Parser
from trainfit.launch.commands.shell.patterns import matches
from trainfit.launch.commands.shell.piece import Piece
from trainfit.launch.commands.shell.programs import PROGRAMS
from trainfit.launch.commands.shell.source import Source
from trainfit.launch.commands.shell.started import Command
from trainfit.launch.commands.shell.state import (
    DYNAMIC,
    Budget,
    Function,
    State,
    Value,
    Variable,
    merged,
    unknown,
)
from trainfit.launch.commands.shell.syntax import (
    Assignment,
    Background,
    Block,
    Calculation,
    Case,
    Chain,
    Condition,
    CountingFor,
    Definition,
    For,
    If,
    Items,
    Node,
    Pipeline,
    Redirect,
    Redirected,
    Simple,
    Subshell,
    Substitution,
    While,
    Word,
)
from trainfit.launch.commands.shell.text import Array, NotKnownError, Text

MAX_ROUNDS = 1000
"""Of a loop; one that waits for something never ends."""

MAX_CALLS = 20
"""Functions, files and evaluated texts within each other."""

MAX_DEPTH = 80
"""Statements within each other, through all calls."""


class Sent(Protocol):
    """A file that was sent with a script."""

    @property
    def path(self) -> str: ...

    @property
    def content(self) -> str: ...


class Script:
    """Follows scripts in one shell, and collects the commands that they run."""

    def __init__(self, state: State, budget: Budget, file: Callable[[str], Sent | None]) -> None:
        self.state = state
        self.budget = budget
        self.file = file
        self.commands: list[Command] = []
        self.ends_early: list[tuple[Piece, str]] = []
        """Where a script ends early or does not read as bash: why no command may be found."""
        self.assumed: list[Piece] = []
        """Where a script may end, and is taken to go on."""
        self._refusals: list[Refusal] = []
        """Where what is followed may be refused: bash goes on behind it then."""
        self.printed: list[Text] | None = None
        """What is printed where that is taken up; None where it goes to the terminal."""
        self.status: Status = 0
        """$?"""
        self.substituted: Status | None = None
        """The status of the last substitution of the words that are expanded."""
        self._doubt: str | None = None
        self._calls = 0
        self._depth = 0
        self._loops = 0
        """Loops around the statement, in its function."""
        self._functions = 0
        self._returns = 0
        """Functions and sourced scripts around the statement."""
        self._subshells = 0
        self._guarded = 0
        """Conditions around the statement: set -e does not end the script in them."""
        self._loosely = False
        self._seen = _Around()
        """What is around the statement of which all is to be seen."""
        self._active: list[int] = []
        """The functions that are followed loosely."""
        self._trapping = False
        self._captures = 0
        self._cut_short = 0
        """Subshells that may end before all of them has run."""

    @property
    def loosely(self) -> bool:
        """Whether it is not known how often, and whether at all, the statements are run."""
        return self._loosely

    @property
    def in_function(self) -> bool:
        return bool(self.state.frames)

    def follow(self, source: Source) -> None:
        """Follow a script or a command line from its beginning to its end. Raises ShellError."""
        try:
            with self._ended():
                self._include(source)
        except RecursionError:
            raise ShellError("its scripts are nested too deeply") from None
        except (UnclearError, NotKnownError) as why:
            raise ShellError(f"its scripts are not followed: {why}") from None

    @contextmanager
    def _ended(self) -> Iterator[None]:
        """What is left by exit, and what a trap does then."""
        try:
            yield
        except LeftError as left:
            self.status = left.status
            self.state = left.state or self.state
        trap = self.state.traps.pop("EXIT", None)
        if trap is not None:
            try:
                self.evaluate(trap)
            except LeftError as left:
                self.status = left.status

    def _include(self, source: Source) -> None:
        """The lines of a text as a part of this script."""
        program = Parser(source).program()
        self.state.own |= program.own
        self.budget.spend(source.length)
        for command, extended in zip(program.commands, program.extended, strict=True):
            if extended is not None and not self.state.on("extglob"):
                raise ShellError("has a pattern that asks for extglob", extended)
            if self._subshells:
                self.run(command)
            else:
                self._to_its_end(command)
        if program.misread is None:
            return
        place, message = program.misread
        if self._calls or self._subshells:
            raise ShellError(message, place)
        self.ends_early.append((place, f"does not read as bash: it {message}"))
        raise LeftError(Way.EXIT, 2)

    def _to_its_end(self, command: Node) -> None:
        """Follow a command of a text, behind which bash goes on where it refuses an expansion."""
        since = len(self._refusals)
        ended: list[State] = []
        try:
            self.run(command)
            ended.append(self.state)
        except LeftError as left:
            if left.way is Way.DISCARD:
                self.status = left.status
                self._may_end_with(command)
                ended.append(self.state)
            elif len(self._refusals) == since:
                raise
            elif left.way is not Way.EXIT:
                raise UnclearError(self._refusals[since].why) from None
            else:
                self.supposed(self._refusals[since].place)
        refusals = self._refusals[since:]
        del self._refusals[since:]
        if refusals:
            place, why = refusals[0].place, refusals[0].why
            self._may_end_with(command)
            states = [*ended, *(each.state for each in refusals)]
            self.budget.spend(sum(each.size for each in states))
            self.state = merged(states, place, why)
            self.status = why

    def _may_end_with(self, command: Node) -> None:
        """Whether set -e ends a script that is refused something depends on what is around it."""
        if self.state.on("errexit"):
            first = command.commands[0] if isinstance(command, Block) else command
            self.supposed(Piece("", "", None) if isinstance(first, Block) else first.place)

    def evaluate(self, text: Text) -> Status:
        """Follow a text that the shell has put together."""
        place = text.word()
        source = Source.of(text)
        with self._called(place):
            before, self.status = self.status, 0
            if not source.content.strip():
                return 0
            self.status = before
            self._include(source)
        return self.status

    def source(self, source: Source, arguments: Sequence[Text]) -> Status:
        """Follow a script that this one sources."""
        outer = self.state.parameters
        if arguments:
            self.state.parameters = tuple(arguments)
        place = source.place(0)

        def follow() -> Status:
            self.status = 0
            self._include(source)
            return self.status

        since = len(self._refusals)
        try:
            return self._until_returned(place, follow)
        finally:
            for state in self._reached(since):
                state.parameters = outer if arguments else state.parameters

    def call(self, name: str, arguments: Sequence[Text], place: Piece) -> Status:
        """Call a function of the script."""
        body = self.state.functions[name].body
        if body is None:
            raise ShellError(f"calls {name}, of which it is not known what it is", place)
        if self._loosely and id(body) in self._active:
            self.not_followed(place, f"{name}, which calls itself in a way that is not known,")
        outer, self.state.parameters = self.state.parameters, tuple(arguments)
        depth, since = len(self.state.frames), len(self._refusals)
        self.state.frames.append({})
        self._functions += 1
        self._active.append(id(body))
        try:
            return self._until_returned(place, lambda: self.run(body))
        except LeftError as left:
            if left.way is Way.EXIT and left.state is None:
                left.state = self.state.copy()
            raise
        finally:
            self._active.pop()
            self._functions -= 1
            for state in self._reached(since):
                state.leave_function(depth, outer)

    def _reached(self, since: int) -> Sequence[State]:
        """The shell as it is, and as it is where it was refused something since a moment."""
        return [self.state, *(each.state for each in self._refusals[since:])]

    def _until_returned(self, place: Piece, follow: Callable[[], Status]) -> Status:
        loops, self._loops = self._loops, 0
        seen, self._seen = self._seen, self._seen._replace(loops=0)
        self._returns += 1
        try:
            with self._called(place):
                return self._until_clear(place, follow, within=_Around(returns=1))
        except LeftError as left:
            if left.way is not Way.RETURN:
                raise
            return left.status
        finally:
            self._loops, self._seen = loops, seen
            self._returns -= 1

    @contextmanager
    def _called(self, place: Piece) -> Iterator[None]:
        if self._calls >= MAX_CALLS:
            message = f"calls functions and scripts more than {MAX_CALLS} levels deep"
            raise ShellError(message, place)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    def leave(self, way: Way, place: Piece, status: Status = 0, levels: int = 1) -> None:
        """Leave loops, the function or the script, unless all of it is to be seen. Where there
        is none to leave bash says so, and goes on.
        """
        around = {Way.BREAK: self._loops, Way.CONTINUE: self._loops, Way.RETURN: self._returns}
        levels = min(levels, self._loops or 1)
        if not around.get(way, 1):
            return
        if not self._loosely:
            raise LeftError(way, status, levels)
        if way is Way.EXIT:
            self.supposed(place)
        elif self._subshells == self._seen.subshells:
            within = self._returns - self._seen.returns
            if way is not Way.RETURN:
                within = self._loops - self._seen.loops - levels + 1
            if within < 1:
                raise UnclearError(f"{self.where(place)} may leave what is around it")

    def refused(self, place: Piece, why: str) -> NoReturn:
        """Bash goes on with the next line behind an expansion that it refuses."""
        if self._loosely:
            self.may_be_refused(place, why)
            raise NotKnownError(why)
        self.ends_early.append((place, f"bash stops here: {why}"))
        raise LeftError(Way.DISCARD, 1)

    def may_be_refused(self, place: Piece, why: str) -> None:
        """Bash may refuse an expansion here, and go on behind the command that it stands in."""
        why = _root(f"{self.where(place)} may be refused, which is not known", why)
        self.budget.spend(self.state.size)
        self._refusals.append(Refusal(place, why, self.state.copy()))

    def ends(self, place: Piece, why: str) -> NoReturn:
        """The script ends with an error."""
        if self._loosely:
            self.supposed(place)
            raise NotKnownError(why)
        self.ends_early.append((place, f"the script ends here: {why}"))
        raise LeftError(Way.EXIT, f"which status it ends with is known only when it runs: {why}")

    def supposed(self, place: Piece) -> None:
        """The script may end here, and is taken to go on."""
        self.assumed.append(place)

    def not_followed(self, place: Piece, what: str) -> NoReturn:
        """Something of the shell that may change what comes, and is not followed."""
        raise ShellError(f"{what} is not followed", place)

    def expander(self) -> Expander:
        return Expander(self)

    def forget(self, names: Sequence[str], place: Piece, why: str) -> None:
        """Take these variables to be set to something that is not known."""
        for each in names:
            name = self._meant(each, place)
            if name not in DYNAMIC and not self.state.variables.get(name, Variable(None)).readonly:
                self.state.put(name, Text(unknown(name, place, why).pieces, spreads=True))

    def where(self, place: Piece) -> str:
        return place.where

    def note_end(self, place: Piece, message: str) -> None:
        self.ends_early.append((place, message))

    def emit(self, text: Text) -> None:
        """Print a text."""
        if self.printed is not None:
            self.budget.spend(len(str(text)))
            self.printed.append(text)

    def status_text(self) -> str:
        if isinstance(self.status, str):
            raise NotKnownError(self.status)
        return str(self.status)

    # Statements

    def run(self, node: Node) -> Status:
        """Follow one statement."""
        self.budget.spend()
        if self._depth >= MAX_DEPTH:
            raise ShellError(f"its statements are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        try:
            status = _STATEMENTS[type(node)](self, node)
        finally:
            self._depth -= 1
        self.status = "it runs in a way that is not known" if self._loosely else status
        return self.status

    def _checked(self, status: Status, place: Piece) -> Status:
        """The status of a command that set -e ends the script for, where it fails."""
        if self._guarded or self._loosely:
            return status
        trap = self.state.traps.get("ERR")
        heard = (not self._functions and not self._subshells) or self.state.on("errtrace")
        if trap is not None and heard and status != 0 and not self._trapping:
            self._trapped(trap, status, place)
        if isinstance(status, int) and status != 0 and self.state.on("errexit"):
            self.note_end(place, "the script ends here, as set -e says")
            raise LeftError(Way.EXIT, status)
        if isinstance(status, str) and self.state.on("errexit"):
            self.assumed.append(place)
            return 0
        return status

    def _trapped(self, trap: Text, status: Status, place: Piece) -> None:
        self._trapping = True
        try:
            if isinstance(status, str):
                self._either([lambda: self.evaluate(trap), lambda: 0], place, status)
            else:
                self.status = status
                self.evaluate(trap)
        finally:
            self._trapping = False

    @contextmanager
    def _guard(self) -> Iterator[None]:
        self._guarded += 1
        try:
            yield
        finally:
            self._guarded -= 1

    def _block(self, node: Block) -> Status:
        status: Status = 0
        for command in node.commands:
            status = self.run(command)
        return status

    def _simple(self, node: Simple) -> Status:
        return self._command(node, ())

    def _command(self, node: Simple, redirects: Sequence[Redirect]) -> Status:
        """A simple command. Its words are expanded first, then what is redirected and assigned."""
        self.substituted = None
        first = node.words[0] if node.words else None
        name = "" if first is None else _bare(first)
        if name in DECLARING and name not in self.state.functions:
            with self._redirecting(redirects):
                return self._checked(declare(self, name, node), node.place)
        plain = [each for each in node.words if isinstance(each, Word)]
        expander = self.expander()
        tests = name in ("[", "test") and name not in self.state.functions
        words = expander.asked(plain) if tests else expander.words(plain)
        if words:
            return self._checked(self._with(node.assignments, words, redirects), node.place)
        with self._redirecting(redirects):
            for assignment in node.assignments:
                self.assigned(assignment)
        return self._checked(self._last_substituted(), node.place)

    def _last_substituted(self) -> Status:
        return 0 if self.substituted is None else self.substituted

    def _with(
        self,
        assignments: Sequence[Assignment],
        words: Sequence[Text],
        redirects: Sequence[Redirect],
    ) -> Status:
        """Run a command with variables that are its own."""
        before: dict[str, Variable | None] = {}
        since = len(self._refusals)
        try:
            for assignment in assignments:
                held = self.state.variables.get(assignment.name)
                if held is not None and held.readonly:
                    self.value_of(assignment.value, keyed=held.keyed)
                    continue
                self.assigned(assignment, before)
                variable = self.state.variables.get(assignment.name)
                if variable is not None:
                    own = variable._replace(exported=True, doubt="")
                    self.state.variables[assignment.name] = own
            with self._redirecting(redirects):
                return self.invoke(words, _place_of(words))
        finally:
            for state in self._reached(since):
                for each, outer in before.items():
                    state.restore(each, outer)

    def invoke(self, words: Sequence[Text], place: Piece, *, functions: bool = True) -> Status:
        """Run a command of these words: a function, the shell's own, or a program."""
        name = str(words[0])
        if words[0].unknown is None:
            if functions and name in self.state.functions:
                return self.call(name, words[1:], place)
            if name in BUILTINS:
                return BUILTINS[name](self, words[1:], place)
            if name in DECLARING:
                self.not_followed(place, f"{name} in other words")
            known = PROGRAMS.get(name)
            if known is not None:
                status = known(self, words[1:], place)
                if status is not None:
                    return status
        return self.start(words, place)

    def start(self, words: Sequence[Text], place: Piece) -> Status:
        """A program, whose words are kept."""
        name = str(words[0])
        why = f"{name} is not run; write what it prints in its place"
        succeeds = name in SUCCEEDING and words[0].unknown is None
        if self.printed is not None and not (succeeds and name not in ("date", "ls")):
            self.printed.append(Text.at(place, UNNAMED, why))
        files.touched(self, words, place)
        listed = tuple(text.word() for text in words)
        if words[0].unknown is not None:
            self.note_end(listed[0], f"what {name} starts is not known: {words[0].unknown}")
        if succeeds:
            return 0
        stdin = None if self.state.stdin is None else self.state.stdin.word()
        if stdin is not None:
            self.budget.spend(len(stdin.text) // 8)
        self.commands.append(
            Command(
                listed,
                self.state.variables.environment(self.budget.spend),
                self._doubt or next((each.why for each in self._refusals), None),
                self.state.files,
                captured=bool(self._captures),
                stdin=stdin,
            )
        )
        return f"whether {name} succeeds at {self.where(place)} is known only when it runs"

    # Assignments

    def assigned(self, node: Assignment, before: dict[str, Variable | None] | None = None) -> None:
        """Follow an assignment, and note in `before` what it takes the place of."""
        variable = self.state.variables.get(node.name, Variable(None))
        start = 0
        if node.adds and isinstance(variable.value, Array) and not variable.keyed:
            start = max(map(int, variable.value.items), default=-1) + 1
        elif node.adds and isinstance(variable.value, Text):
            start = 1
        value = self.value_of(node.value, keyed=variable.keyed, start=start)
        index = None
        if node.index is not None:
            try:
                index = subscript(node.name, node.index, self.expander())
            except NotKnownError as why:
                self.forget([node.name], node.place, str(why))
                return
        if before is not None:
            before.setdefault(node.name, self.state.variables.get(node.name))
        self.assign(node.name, value, node.place, index, adds=node.adds)

    def value_of(self, node: Word | Items, *, keyed: bool, start: int = 0) -> Value:
        """What is assigned; items without an index stand from `start` on."""
        expander = self.expander()
        if isinstance(node, Word):
            return expander.value(node)
        items: dict[str, Text] = {}
        following = start
        for item in node.items:
            if isinstance(item, Word):
                if keyed:
                    self.not_followed(item.place, "an associative array without keys")
                for text in expander.words([item]):
                    items[str(following)] = text
                    following += 1
                continue
            value = self.value_of(item.value, keyed=False)
            assert isinstance(value, Text)
            assert item.index is not None
            try:
                text = expander.value(item.index)
                key = text.known() if keyed else str(expander.calculated(text, item.place))
            except NotKnownError as why:
                return Text(unknown("array", item.place, str(why)).pieces, spreads=True)
            items[key] = items[key] + value if item.adds and key in items else value
            if not keyed:
                following = int(key) + 1
        return Array({}, keyed).with_items(items)

    def assign(
        self,
        name: str,
        value: Value,
        place: Piece,
        index: str | None = None,
        *,
        adds: bool = False,
    ) -> None:
        """Give a variable, or an item of it, a value."""
        name = self._meant(name, place)
        variable = self.state.variables.get(name, Variable(None))
        if variable.readonly:
            self.refused(place, f"{name} cannot be changed")
        if name in DYNAMIC:
            return
        if self._loosely or variable.case == "?":
            why = "it runs in a way that is not known" if self._doubt is None else self._doubt
            self.state.put(name, Text(unknown(name, place, why).pieces, spreads=True))
            return
        if isinstance(value, Text):
            value = self._one(name, variable, value, place, index, adds=adds)
        elif adds:
            value = self._more(variable, value)
        self.budget.spend(len(value.items) if isinstance(value, Array) else len(value.pieces))
        self.state.put(name, value)

    def _meant(self, name: str, place: Piece) -> str:
        """The name of the variable that another one stands for."""
        try:
            return self.state.meant(name)
        except NotKnownError as why:
            self.not_followed(place, str(why))

    def _one(
        self,
        name: str,
        variable: Variable,
        text: Text,
        place: Piece,
        index: str | None,
        *,
        adds: bool,
    ) -> Value:
        """The value with one text assigned to it or to an item of it."""
        held = variable.value
        if adds and name not in self.state.variables and not self.state.is_empty(name):
            held = unknown(name, place, self.state.unset(name))
        if isinstance(held, Text) and held.spreads and (index is not None or adds):
            return Text(unknown(name, place, str(held.unknown)).pieces, spreads=True)
        key = index or "0"
        before: Text | None
        try:
            before = held.item(key) if isinstance(held, Array) else held
        except NotKnownError as why:
            return Text(unknown(name, place, str(why)).pieces, spreads=True)
        if index not in (None, "0") and not isinstance(held, Array):
            before = None
        text = self._converted(variable, text, before if adds else None, place)
        if isinstance(held, Array):
            return held.with_items({key: text})
        if index is None and not variable.keyed:
            return text
        items = {"0": held} if isinstance(held, Text) else {}
        return Array({}, variable.keyed).with_items({**items, key: text})

    def _converted(self, variable: Variable, text: Text, before: Text | None, place: Piece) -> Text:
        """A text as an integer or in small letters, where a variable is declared so."""
        if variable.integer:
            try:
                expander = self.expander()
                number = expander.calculated(text, place)
                if before is not None:
                    number += expander.calculated(before, place)
                return Text.at(place, str(arithmetic.wrapped(number)))
            except NotKnownError as why:
                return Text.at(place, UNNAMED, str(why))
        if before is not None:
            self.budget.spend(len(str(before)) + len(before.pieces))
            text = before + text
        if variable.case and variable.case in "ul":
            if text.unknown is not None:
                return Text.at(place, UNNAMED, text.unknown)
            known = str(text)
            text = Text.at(place, known.upper() if variable.case == "u" else known.lower())
        return text

    def _more(self, variable: Variable, added: Array) -> Value:
        """An array with more items behind it."""
        held = variable.value
        if isinstance(held, Text) and held.spreads:
            return held
        if held is None:
            return added
        before = held if isinstance(held, Array) else Array.of([held])
        self.budget.spend(len(before.items))
        return before.with_items(added.items)

    # Functions, chains, shells within the shell

    def _definition(self, node: Definition) -> Status:
        if self._loosely and node.name in self.state.functions:
            self.state.functions[node.name] = Function(None, node.place)
        else:
            self.state.functions[node.name] = Function(node.body, node.place)
        return 0

    def _chain(self, node: Chain) -> Status:
        """a && b || c"""
        with self._guard():
            status = self.run(node.first)
        for index, (sign, command) in enumerate(node.others):
            last = index == len(node.others) - 1
            status = self._then(status, sign, command, node.place, guarded=not last)
        return status

    def _then(
        self, status: Status, sign: str, command: Node, place: Piece, *, guarded: bool
    ) -> Status:
        def run() -> Status:
            if not guarded:
                return self.run(command)
            with self._guard():
                return self.run(command)

        if isinstance(status, int):
            return run() if (status == 0) == (sign == "&&") else status
        skipped: Status = 0 if sign == "||" else status
        return self._either([run, lambda: skipped], place, status)

    def _pipeline(self, node: Pipeline) -> Status:
        """Each part runs in a shell of its own, and reads what the one before prints."""
        *others, last = node.commands
        statuses: list[Status] = []
        outer = self.state.stdin
        with self._guard() if node.negated else _nothing():
            for command in others:
                with self._guard():
                    text, status = self._captured(command, node.place)
                statuses.append(status)
                self.state.stdin = text
            if others and not self.state.on("lastpipe"):
                status = self._apart(lambda: self.run(last), node.place)
            else:
                status = self.run(last)
            statuses.append(status)
        if others:
            self.state.stdin = outer
        status = _of_pipeline(statuses) if self.state.on("pipefail") else statuses[-1]
        if node.negated:
            return status if isinstance(status, str) else int(status == 0)
        return self._checked(status, node.place)

    def _background(self, node: Background) -> Status:
        def run() -> Status:
            self.state.stdin = Text.at(node.place, "")
            return self.run(node.command)

        outer = self.state.stdin
        self._apart(run, node.place)
        self.state.stdin = outer
        return 0

    def _subshell(self, node: Subshell) -> Status:
        status = self._apart(lambda: self.run(node.body), node.place)
        return self._checked(status, node.place)

    def _apart(self, follow: Callable[[], Status], place: Piece) -> Status:
        """Follow something in a shell of its own: it changes nothing but what is left to read."""
        outer, self.state = self.state, self.state.copy()
        self.budget.spend(outer.size)
        self.state.traps.pop("EXIT", None)
        status_before, loops = self.status, self._loops
        self._subshells += 1
        self._loops = 0
        assumed, since = len(self.assumed), len(self._refusals)

        def ended() -> Status:
            with self._ended():
                self.status = status_before
                self.status = follow()
            return self.status

        try:
            status = self._until_clear(place, ended, within=_Around(subshells=1))
            if len(self.assumed) > assumed or len(self._refusals) > since:
                self._cut_short += 1
                return f"{self.where(place)} may end before all of it has run"
            return status
        finally:
            self._subshells -= 1
            self._loops = loops
            refusals = self._refusals[since:]
            if refusals:
                del self._refusals[since:]
                states = [self.state, *(each.state for each in refusals)]
                self.state = merged(states, place, refusals[0].why)
            if self.state.stdin is not outer.stdin:
                outer.stdin = self.state.stdin
            outer.files = self.state.files
            self.state = outer

    def _captured(self, command: Node, place: Piece) -> tuple[Text, Status]:
        """What a command prints in a shell of its own, and its status."""
        outer, self.printed = self.printed, []
        cut_short = self._cut_short
        try:
            status = self._apart(lambda: self.run(command), place)
            pieces = [piece for text in self.printed for piece in text.pieces]
        finally:
            self.printed = outer
        if self._cut_short > cut_short:
            pieces = [Piece(UNNAMED, place.file, place.line, str(status))]
        if self._loosely:
            pieces = [Piece(UNNAMED, place.file, place.line, "it runs in a way that is not known")]
        return Text(tuple(pieces) or (place,)), status

    def output(self, substitution: Substitution) -> Text:
        """What the commands of a substitution print, or why that is not known."""
        place = substitution.place
        self._captures += 1
        options, self.state.options = self.state.options, self.state.options - {"errexit"}
        if "inherit_errexit" in options:
            self.state.options = options
        stdin = self.state.stdin
        try:
            if substitution.arrow == ">":
                self.state.stdin = None
            read = self._read_whole(substitution.body)
            text, status = read or self._captured(substitution.body, place)
        finally:
            self.state.options = options
            self._captures -= 1
            if substitution.arrow == ">":
                self.state.stdin = stdin
        if substitution.arrow:
            why = f"{_short(substitution.written)} is a file only while the script runs"
            return Text.at(place, UNNAMED, why)
        self.substituted = status
        if text.unknown is not None:
            why = text.unknown
            if why.endswith(_NOT_RUN):
                why = f"{_short(substitution.written)}{_NOT_RUN}"
            return Text.at(place, UNNAMED, why)
        return text.without_last_lines()

    def _read_whole(self, body: Block) -> tuple[Text, Status] | None:
        """$(< file) of a file that is known."""
        match body.commands:
            case (Redirected(Simple((), ()), (Redirect("<", "") as redirect,)),):
                text = files.read(self, redirect)
                return None if text is None else (text, 0)
            case _:
                return None

    def printed_by(self, substitution: Substitution) -> Text:
        """What the commands of <(...) print."""
        self._captures += 1
        try:
            return self._captured(substitution.body, substitution.place)[0]
        finally:
            self._captures -= 1

    def _calculation(self, node: Calculation) -> Status:
        expander = self.expander()
        text = expander.value(node.expression, quoted=True)
        try:
            status: Status = int(expander.answered(text, node.place) == 0)
        except RefusedError:
            status = 1
        except NotKnownError as why:
            status = str(why)
        return self._checked(status, node.place)

    def _condition(self, node: Condition) -> Status:
        try:
            status: Status = int(not conditions.holds(node, self.expander()))
        except RefusedError:
            status = 1
        except NotKnownError as why:
            status = str(why)
        return self._checked(status, node.place)

    # Redirections

    def _redirected(self, node: Redirected) -> Status:
        if isinstance(node.command, Simple):
            return self._command(node.command, node.redirects)
        with self._redirecting(node.redirects):
            return self.run(node.command)

    @contextmanager
    def _redirecting(self, redirects: Sequence[Redirect]) -> Iterator[None]:
        """What is read and printed goes where the redirections of a command say."""
        if not redirects:
            yield
            return
        stdin, printed = self.state.stdin, self.printed
        reads, target = False, None
        for redirect in redirects:
            if redirect.descriptor not in ("", "0", "1", "2"):
                continue
            if redirect.operator.startswith("<"):
                if redirect.descriptor in ("", "0"):
                    reads = True
                    self.state.stdin = files.read(self, redirect)
                continue
            target = files.written_to(self, redirect, target)
        if target is not None:
            self.printed = target.printed
        try:
            yield
        finally:
            if reads:
                self.state.stdin = stdin
            self.printed = printed
            if target is not None:
                target.close(self)

    # Branches

    def _if(self, node: If) -> Status:
        return self._branches(list(node.branches), node)

    def _branches(self, branches: Sequence[tuple[Block, Block]], node: If) -> Status:
        """The first branch whose condition holds."""
        for index, (condition, body) in enumerate(branches):
            with self._guard():
                status = self.run(condition)
            if isinstance(status, str):
                ways = [
                    partial(self.run, body),
                    partial(self._branches, branches[index + 1 :], node),
                ]
                return self._either(ways, node.place, status)
            if status == 0:
                return self.run(body)
        return 0 if node.otherwise is None else self.run(node.otherwise)

    def _case(self, node: Case) -> Status:
        if any(item.end != ";;" for item in node.items):
            return self._case_running_on(node)
        expander = self.expander()
        try:
            if self._loosely:
                raise NotKnownError("it runs in a way that is not known")
            word = expander.value(node.word).known()
            return self._cases(node, 0, word)
        except NotKnownError as why:
            ways = [partial(self._items, node, start) for start in range(len(node.items))]
            return self._either([*ways, lambda: 0], node.place, str(why))

    def _case_running_on(self, node: Case) -> Status:
        """A case of which one item may run on into the next."""

        def once() -> Status:
            ways = [partial(self.run, item.body) for item in node.items]
            return self._either([*ways, lambda: 0], node.place, "it runs in an unknown way")

        def follow() -> Status:
            return self._cases(node, 0, self.expander().value(node.word).known())

        return self._until_clear(node.place, follow, once)

    def _cases(self, node: Case, start: int, word: str) -> Status:
        """Every item from this one on that is chosen. Raises NotKnownError before any is."""
        chosen = next(
            (at for at in range(start, len(node.items)) if self._matches(node, at, word)), None
        )
        if chosen is None:
            return 0
        status: Status = self.run(node.items[chosen].body)
        while node.items[chosen].end == ";&" and chosen + 1 < len(node.items):
            chosen += 1
            status = self.run(node.items[chosen].body)
        if node.items[chosen].end != ";;&":
            return status
        found = next(
            (at for at in range(chosen + 1, len(node.items)) if self._matches(node, at, word)),
            None,
        )
        return status if found is None else self._cases(node, found, word)

    def _items(self, node: Case, start: int) -> Status:
        """An item that may be chosen."""
        return self.run(node.items[start].body)

    def _matches(self, node: Case, at: int, word: str) -> bool:
        expander = self.expander()
        for pattern in node.items[at].patterns:
            self.budget.spend(len(word))
            if matches(word, expander.compiled(pattern)):
                return True
        return False

    # Loops

    def _for(self, node: For) -> Status:
        if node.words is None:
            words: Sequence[Text] = self.state.parameters or ()
        else:
            words = self.expander().words(node.words)
        unclear = next((text.unknown for text in words if text.spreads), None)
        if self.state.parameters is None and node.words is None:
            unclear = self.state.unset("1")
        if node.selects:
            unclear = "what is selected is known only when it runs"

        def once() -> Status:
            self.assign(node.name, unknown(node.name, node.place, str(unclear)), node.place)
            return self._seen_once(node.body)

        def rounds() -> Status:
            if unclear is not None:
                raise UnclearError(unclear)
            status: Status = 0
            for number, text in enumerate(words, 1):
                if self.state.variables.get(node.name, Variable(None)).readonly:
                    return 1
                self.assign(node.name, Text(text.pieces), node.place)
                status, goes_on = self._round(node.body, number)
                if not goes_on:
                    break
            return status

        return self._until_clear(node.place, rounds, once)

    def _counting_for(self, node: CountingFor) -> Status:
        def calculated(word: Word, default: int) -> int:
            expander = self.expander()
            text = expander.value(word, quoted=True)
            is_empty = text.unknown is None and not str(text).strip()
            return default if is_empty else expander.answered(text, word.place)

        def rounds() -> Status:
            status: Status = 0
            try:
                calculated(node.start, 0)
                for number in count(1):
                    if not calculated(node.condition, 1):
                        break
                    status, goes_on = self._round(node.body, number)
                    if not goes_on:
                        break
                    calculated(node.step, 0)
            except RefusedError:
                return 1
            return status

        def once() -> Status:
            texts = (
                self.expander().value(each) for each in (node.start, node.condition, node.step)
            )
            for text in texts:
                self.forget(arithmetic.assigned(str(text)), node.place, "a loop counts with it")
            return self._seen_once(node.body)

        return self._until_clear(node.place, rounds, once)

    def _while(self, node: While) -> Status:
        def rounds() -> Status:
            last: Status = 0
            for number in count(1):
                self._loops += 1
                try:
                    with self._guard():
                        status = self.run(node.condition)
                except LeftError as left:
                    if left.way not in (Way.BREAK, Way.CONTINUE):
                        raise
                    if left.levels > 1:
                        raise LeftError(left.way, levels=left.levels - 1) from None
                    if left.way is Way.BREAK:
                        return 0
                    continue
                finally:
                    self._loops -= 1
                if isinstance(status, str):
                    raise UnclearError(status)
                if (status == 0) == node.until:
                    return last
                last, goes_on = self._round(node.body, number)
                if not goes_on:
                    return last
            return last

        def once() -> Status:
            with self._guard():
                self._seen_once(node.condition)
            return self._seen_once(node.body)

        return self._until_clear(node.place, rounds, once)

    def _seen_once(self, part: Node) -> Status:
        """A part of a loop of which it is not known how often it goes round."""
        self._loops += 1
        try:
            return self.run(part)
        finally:
            self._loops -= 1

    def _round(self, body: Node, number: int) -> tuple[Status, bool]:
        """One round of a loop: its status, and whether it may go on."""
        if number > MAX_ROUNDS:
            raise UnclearError(f"it goes round more than {MAX_ROUNDS} times")
        self._loops += 1
        try:
            return self.run(body), True
        except LeftError as left:
            if left.way not in (Way.BREAK, Way.CONTINUE):
                raise
            if left.levels > 1:
                raise LeftError(left.way, levels=left.levels - 1) from None
            return 0, left.way is Way.CONTINUE
        finally:
            self._loops -= 1

    # What is not known

    def _until_clear(
        self,
        place: Piece,
        follow: Callable[[], Status],
        once: Callable[[], Status] | None = None,
        within: _Around | None = None,
    ) -> Status:
        """Follow something; if it is not clear how it goes on, see what it may set. What stands in
        it is `within` it.
        """
        if self._loosely:
            return (once or follow)()
        before, commands, ends = self.state.copy(), len(self.commands), len(self.ends_early)
        refusals = len(self._refusals)
        printed = None if self.printed is None else len(self.printed)
        self.budget.spend(before.size)
        loops, returns, guarded = self._loops, self._returns, self._guarded
        subshells, functions, captures = self._subshells, self._functions, self._captures
        active, depth, calls = list(self._active), self._depth, self._calls
        try:
            return follow()
        except (UnclearError, NotKnownError) as why:
            self.state = before
            del self.commands[commands:]
            del self.ends_early[ends:]
            del self._refusals[refusals:]
            if self.printed is not None and printed is not None:
                del self.printed[printed:]
            self._loops, self._returns, self._guarded = loops, returns, guarded
            self._subshells, self._functions, self._captures = subshells, functions, captures
            self._active, self._depth, self._calls = active, depth, calls
            return self._loose(place, once or follow, str(why), within or _Around())

    def _loose(self, place: Piece, once: Callable[[], Status], why: str, within: _Around) -> Status:
        """See every statement once; what they set is not known afterwards.

        They are seen twice, so that what is set at the end is not known at the beginning either.
        """
        why = _root(f"{self.where(place)} runs in a way that is not known", why)
        outer = self._loosely, self._doubt, self._seen
        self._loosely, self._doubt = True, self._doubt or why
        self._seen = _Around(
            self._loops, self._returns - within.returns, self._subshells - within.subshells
        )
        commands = len(self.commands)
        self.state.stdin = None
        try:
            for _ in range(2):
                del self.commands[commands:]
                before, self.state = self.state, self.state.copy()
                self.budget.spend(before.size)
                try:
                    once()
                except NotKnownError:
                    self.not_followed(place, "what is neither known nor clear")
                self.state = merged([before, self.state], place, why)
        finally:
            self._loosely, self._doubt, self._seen = outer
        if self.printed is not None:
            self.printed.append(Text.at(place, UNNAMED, why))
        return why

    def _either(self, ways: Sequence[Callable[[], Status]], place: Piece, why: str) -> Status:
        """Follow each of several ways, of which the script takes one that is not known."""
        why = _root(f"{self.where(place)} depends on what is not known", why)
        before, outer, status_before = self.state, self._doubt, self.status
        states: list[State] = []
        refused: list[Refusal] = []
        statuses: list[Status] = []
        unclear = False
        printed = None if self.printed is None else list(self.printed)
        outputs: list[str] = []
        self._doubt = outer or why
        for way in ways:
            self.budget.spend(before.size)
            self.state, self.status = before.copy(), status_before
            if printed is not None:
                self.printed = list(printed)
            try:
                statuses.append(way())
            except LeftError as left:
                if left.way is Way.DISCARD:
                    refused.append(Refusal(place, why, self.state))
                else:
                    unclear = unclear or left.way is not Way.EXIT or self._subshells > 0
                    self.assumed.append(place)
            else:
                states.append(self.state)
            outputs.append("".join(map(str, self.printed or ())))
        self._doubt = outer
        self.state = before
        if unclear:
            raise UnclearError(why)
        if not states and not refused:
            raise LeftError(Way.EXIT, why)
        if not states:
            self.state = merged([each.state for each in refused], place, why)
            raise LeftError(Way.DISCARD, why)
        self._refusals += refused
        if printed is not None:
            if len(set(outputs)) > 1 or len(self.printed or ()) > len(printed):
                self.printed = [*printed, Text.at(place, UNNAMED, why)]
            else:
                self.printed = printed
        self.state = merged(states, place, why)
        return statuses[0] if all(each == statuses[0] for each in statuses) else why


class _Around(NamedTuple):
    """Loops and functions around a statement, and shells within the shell."""

    loops: int = 0
    returns: int = 0
    subshells: int = 0


class Refusal(NamedTuple):
    """Where an expansion may be refused, why, and the shell as it is then."""

    place: Piece
    why: str
    state: State


_NOT_RUN = " is not run; write what it prints in its place"

_STATEMENTS: Mapping[type, Callable[[Script, Any], Status]] = {
    Background: Script._background,
    Block: Script._block,
    Calculation: Script._calculation,
    Case: Script._case,
    Chain: Script._chain,
    Condition: Script._condition,
    CountingFor: Script._counting_for,
    Definition: Script._definition,
    For: Script._for,
    If: Script._if,
    Pipeline: Script._pipeline,
    Redirected: Script._redirected,
    Simple: Script._simple,
    Subshell: Script._subshell,
    While: Script._while,
}


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _of_pipeline(statuses: Sequence[Status]) -> Status:
    """The last of those that failed."""
    for status in reversed(statuses):
        if status != 0:
            return status
    return 0


def _root(what: str, why: str) -> str:
    """Why something is not known; of what rests on another unknown, the first cause alone."""
    return why if " not known: " in why else f"{what}: {why}"


def _place_of(words: Sequence[Text]) -> Piece:
    first = words[0].word()
    return Piece("", first.file, first.line)


def _bare(word: Word | Assignment) -> str:
    return "" if isinstance(word, Assignment) else word.bare or ""


def _short(written: str) -> str:
    command = " ".join(written.split())
    return command if len(command) <= 60 else f"{command[:56]}...{command[-1]}"
