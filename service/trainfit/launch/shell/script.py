"""The statements of a script, followed in their order; no command of it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from trainfit.launch.shell import (
    assignments,
    branches,
    conditions,
    functions,
    loops,
    redirections,
    refusals,
    simple,
    subshells,
    unclear,
)
from trainfit.launch.shell.arithmetic import BadExpressionError
from trainfit.launch.shell.choices import Choices
from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.expansion import Expander
from trainfit.launch.shell.flow import Jump, LeftError, Status, UnclearError
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.refusals import PossibleRefusal
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.started import Command
from trainfit.launch.shell.state import (
    Budget,
    State,
    Value,
)
from trainfit.launch.shell.syntax import (
    Background,
    Calculation,
    Case,
    Chain,
    CommandList,
    CommandPipeline,
    Condition,
    CountingFor,
    Definition,
    For,
    If,
    Node,
    Redirect,
    Redirected,
    Simple,
    Subshell,
    Substitution,
    While,
)
from trainfit.launch.shell.text import NotKnownError, Text
from trainfit.launch.shell.texts import Texts
from trainfit.launch.shell.unclear import Around

MAX_DEPTH = 80
"""Statements within each other, through all calls."""


class ScriptFile(Protocol):
    """A file that was sent with a script."""

    @property
    def path(self) -> str: ...

    @property
    def content(self) -> str: ...


class ShellScript:
    """Follows scripts in one shell, and collects the commands that they run."""

    def __init__(
        self,
        state: State,
        budget: Budget,
        file: Callable[[str], ScriptFile | None],
        prints: Callable[[Sequence[str]], tuple[str, int] | None] = lambda _: None,
        choices: Choices | None = None,
        texts: Texts | None = None,
    ) -> None:
        """`prints` says what a program with these words prints, and its status, if it is known;
        `choices` which way a statement goes of which nothing says it; `texts` are those that were
        parsed before.
        """
        self.state = state
        self.budget = budget
        self.file = file
        self.prints = prints
        self.choices = Choices() if choices is None else choices
        self.texts = Texts() if texts is None else texts
        self.commands: list[Command] = []
        self.ends_early: list[tuple[Piece, str]] = []
        """Where a script ends early or does not read as bash: why no command may be found."""
        self.passes_guards = False
        """Whether an exit that says that something is wrong is taken to be mended."""
        self.read: list[str] = []
        """The paths of files that it has asked for, where `file` notes them."""
        self.meets_guards = False
        """Whether such an exit was met."""
        self.passed: list[Piece] = []
        """Such exits that were passed."""
        self.assumed: list[Piece] = []
        """Where a script may end, and is taken to go on."""
        self.refusals: list[PossibleRefusal] = []
        """Where what is followed may be refused: bash goes on behind it then."""
        self.printed: list[Text] | None = None
        """What is printed where that is taken up; None where it goes to the terminal."""
        self.status: Status = 0
        """$?"""
        self.substituted: Status | None = None
        """The status of the last substitution of the words that are expanded."""
        self.doubt: str | None = None
        self.calls = 0
        self.depth = 0
        self.loops = 0
        """Loops around the statement, in its function."""
        self.functions = 0
        self.returns = 0
        """Functions and sourced scripts around the statement."""
        self.subshells = 0
        self.guarded = 0
        """Conditions around the statement: set -e does not end the script in them."""
        self.loosely = False
        self.seen = Around()
        """What is around the statement of which all is to be seen."""
        self.active: list[int] = []
        """The functions that are followed loosely."""
        self.trapping = False
        self.captures = 0
        self.cut_short = 0
        """Subshells that may end before all of them has run."""

    @property
    def in_function(self) -> bool:
        return bool(self.state.frames)

    def follow(self, source: Source) -> None:
        """Follow a script or a command line from its beginning to its end. Raises ShellError."""
        try:
            with self.ended():
                self.include(source)
        except RecursionError:
            raise ShellError("its scripts are nested too deeply") from None
        except (UnclearError, NotKnownError) as why:
            raise ShellError(f"its scripts are not followed: {why}") from None

    @contextmanager
    def ended(self) -> Iterator[None]:
        """What is left by exit, and what a trap does then."""
        try:
            yield
        except LeftError as left:
            self.status = left.status
            self.state = left.state or self.state
        trap = self.state.traps.pop("EXIT", None)
        if trap is not None:
            try:
                functions.evaluate(self, trap)
            except LeftError as left:
                self.status = left.status

    def include(self, source: Source) -> None:
        """The lines of a text as a part of this script."""
        program = self.texts.parsed(source)
        self.state.own |= program.own
        self.budget.spend(source.length)
        for command, extended in zip(program.commands, program.extended, strict=True):
            if extended is not None and not self.state.on("extglob"):
                raise ShellError("has a pattern that asks for extglob", extended)
            if self.subshells:
                self.run(command)
            else:
                refusals.to_its_end(self, command)
        if program.misread is None:
            return
        place, message = program.misread
        if self.calls or self.subshells:
            raise ShellError(message, place)
        self.ends_early.append((place, f"does not read as bash: it {message}"))
        raise LeftError(Jump.EXIT, 2)

    def leave(self, way: Jump, place: Piece, status: Status = 0, levels: int = 1) -> None:
        """Leave loops, the function or the script, unless all of it is to be seen. Where there
        is none to leave bash says so, and goes on.
        """
        around = {Jump.BREAK: self.loops, Jump.CONTINUE: self.loops, Jump.RETURN: self.returns}
        levels = min(levels, self.loops or 1)
        if not around.get(way, 1):
            return
        if not self.loosely:
            raise LeftError(way, status, levels)
        if way is Jump.EXIT:
            self.supposed(place)
        elif self.subshells == self.seen.subshells:
            within = self.returns - self.seen.returns
            if way is not Jump.RETURN:
                within = self.loops - self.seen.loops - levels + 1
            if within < 1:
                raise UnclearError(f"{self.where(place)} may leave what is around it")

    def ends(self, place: Piece, why: str) -> NoReturn:
        """The script ends with an error."""
        if self.loosely:
            self.supposed(place)
            raise NotKnownError(why)
        self.ends_early.append((place, f"the script ends here: {why}"))
        raise LeftError(Jump.EXIT, f"which status it ends with is known only when it runs: {why}")

    def supposed(self, place: Piece) -> None:
        """The script may end here, and is taken to go on."""
        self.assumed.append(place)

    def not_followed(self, place: Piece, what: str) -> NoReturn:
        """Something of the shell that may change what comes, and is not followed."""
        raise ShellError(f"{what} is not followed", place)

    def output(self, substitution: Substitution) -> Text:
        """What the commands of a substitution print, or why that is not known."""
        return subshells.output(self, substitution)

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
        assignments.assign(self, name, value, place, index, adds=adds)

    def forget(self, names: Sequence[str], place: Piece, why: str) -> None:
        """Take these variables to be set to something that is not known."""
        assignments.forget(self, names, place, why)

    def refused(self, place: Piece, why: str) -> NoReturn:
        """Bash goes on with the next line behind an expansion that it refuses."""
        refusals.refused(self, place, why)

    def may_be_refused(self, place: Piece, why: str) -> None:
        """Bash may refuse an expansion here, and go on behind the command that it stands in."""
        refusals.may_be_refused(self, place, why)

    def expander(self) -> Expander:
        return Expander(self)

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
        if self.depth >= MAX_DEPTH:
            raise ShellError(f"its statements are nested more than {MAX_DEPTH} deep")
        self.depth += 1
        try:
            status = _STATEMENTS[type(node)](self, node)
        finally:
            self.depth -= 1
        self.status = "it runs in a way that is not known" if self.loosely else status
        return self.status

    def checked(self, status: Status, place: Piece) -> Status:
        """The status of a command that set -e ends the script for, where it fails."""
        if self.guarded or self.loosely:
            return status
        trap = self.state.traps.get("ERR")
        heard = (not self.functions and not self.subshells) or self.state.on("errtrace")
        if trap is not None and heard and status != 0 and not self.trapping:
            self._trapped(trap, status, place)
        if isinstance(status, int) and status != 0 and self.state.on("errexit"):
            self.note_end(place, "the script ends here, as set -e says")
            raise LeftError(Jump.EXIT, status)
        if isinstance(status, str) and self.state.on("errexit"):
            self.assumed.append(place)
            return 0
        return status

    def _trapped(self, trap: Text, status: Status, place: Piece) -> None:
        self.trapping = True
        try:
            if isinstance(status, str):
                ways = [lambda: functions.evaluate(self, trap), lambda: 0]
                unclear.either(self, ways, place, "trap", status)
            else:
                self.status = status
                functions.evaluate(self, trap)
        finally:
            self.trapping = False

    @contextmanager
    def guard(self) -> Iterator[None]:
        self.guarded += 1
        try:
            yield
        finally:
            self.guarded -= 1

    def _block(self, node: CommandList) -> Status:
        status: Status = 0
        for command in node.commands:
            status = self.run(command)
        return status

    def command(self, node: Simple, redirects: Sequence[Redirect]) -> Status:
        """A simple command, with what is redirected."""
        return simple.command(self, node, redirects)

    def invoke(self, words: Sequence[Text], place: Piece, *, calls: bool = True) -> Status:
        """Run a command of these words: a function, the shell's own, or a program."""
        return simple.invoke(self, words, place, calls=calls)

    def start(self, words: Sequence[Text], place: Piece) -> Status:
        """A program, whose words are kept."""
        return simple.start(self, words, place)

    def _calculation(self, node: Calculation) -> Status:
        expander = self.expander()
        text = expander.value(node.expression, quoted=True)
        try:
            status: Status = int(expander.answered(text, node.place) == 0)
        except BadExpressionError:
            status = 1
        except NotKnownError as why:
            status = str(why)
        return self.checked(status, node.place)

    def _condition(self, node: Condition) -> Status:
        try:
            status: Status = int(not conditions.holds(node, self.expander()))
        except BadExpressionError:
            status = 1
        except NotKnownError as why:
            status = str(why)
        return self.checked(status, node.place)


_STATEMENTS: Mapping[type, Callable[[ShellScript, Any], Status]] = {
    Background: subshells.follow_background,
    CommandList: ShellScript._block,
    Calculation: ShellScript._calculation,
    Case: branches.follow_case,
    Chain: branches.follow_chain,
    Condition: ShellScript._condition,
    CountingFor: loops.follow_counting_for,
    Definition: functions.follow_definition,
    For: loops.follow_for,
    If: branches.follow_if,
    CommandPipeline: subshells.follow_pipeline,
    Redirected: redirections.follow_redirected,
    Simple: simple.follow_simple,
    Subshell: subshells.follow_subshell,
    While: loops.follow_while,
}
