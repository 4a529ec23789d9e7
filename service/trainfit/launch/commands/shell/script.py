"""The statements of a script, followed in their order; no command of it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell import arithmetic, conditions
from trainfit.launch.commands.shell.assigned import assigned_names, own_names
from trainfit.launch.commands.shell.builtins import BUILTINS, SUCCEEDING
from trainfit.launch.commands.shell.flow import LeftError, Status, UnclearError, Way
from trainfit.launch.commands.shell.here_documents import written
from trainfit.launch.commands.shell.source import UNNAMED, Source, text_of
from trainfit.launch.commands.shell.state import Budget, Function, State, Variable, merged, unknown
from trainfit.launch.commands.shell.text import Array, NotKnownError, Text
from trainfit.launch.commands.shell.words import Expander
from trainfit.launch.program import Command, Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from trainfit.specs.launch import LaunchFile

MAX_ROUNDS = 200
"""Of a loop; one that waits for something never ends."""

MAX_CALLS = 20
"""Functions, files and evaluated texts within each other."""


class Script:
    """Follows scripts in one shell, and collects the commands that they run."""

    def __init__(
        self, state: State, budget: Budget, file: Callable[[str], LaunchFile | None]
    ) -> None:
        self.state = state
        self.file = file
        self.commands: list[Command] = []
        self.ends: list[tuple[Word, str]] = []
        """Where a script ends early or does not read as bash: why no command may be found."""
        self.locals: list[dict[str, Variable | None]] = []
        self._budget = budget
        self._source = Source.of_script("", "argv", None)
        self._doubt: str | None = None
        self._depth = 0
        self._loops = 0
        """Loops around the statement, in its function."""
        self._returns = 0
        """Functions and sourced scripts around the statement."""
        self._loosely = False

    def follow(self, source: Source) -> None:
        """Follow a script or a command line from its beginning to its end."""
        try:
            self.include(source)
        except LeftError:
            return

    def include(self, source: Source) -> None:
        """Follow a text as a part of this script."""
        self.state.own |= own_names(source.root)
        with self._within(source):
            self._sequence(source.root)

    def run(self, source: Source) -> None:
        """Follow a script that this one sources."""
        self.state.own |= own_names(source.root)
        self._until_returned(source, source.root)

    def call(self, function: Function, arguments: Sequence[Text]) -> Status:
        """Call a function of the script."""
        outer, self.state.parameters = self.state.parameters, tuple(arguments)
        self.locals.append({})
        try:
            self._until_returned(function.source, function.body)
        finally:
            self.state.parameters = outer
            for name, variable in self.locals.pop().items():
                self._restore(name, variable)
        return True

    def _until_returned(self, source: Source, body: Node) -> None:
        loops, self._loops = self._loops, 0
        self._returns += 1
        try:
            with self._within(source):
                self._until_clear(body, lambda: self._once(body))
        except LeftError as left:
            if left.way is not Way.RETURN:
                raise
        finally:
            self._loops = loops
            self._returns -= 1

    def leave(self, way: Way) -> None:
        """Leave the loop, the function or the script, unless all of it is to be seen. Where there
        is none to leave bash says so, and goes on.
        """
        around = {Way.BREAK: self._loops, Way.CONTINUE: self._loops, Way.RETURN: self._returns}
        if around.get(way, 1) and not self._loosely:
            raise LeftError(way)

    def expander(self) -> Expander:
        return Expander(self._source, self.state, self._budget)

    def forget(self, names: Mapping[str, None], node: Node, why: str) -> None:
        """Take these variables to be set to something that is not known."""
        at = self._source.piece(node)
        for name in names:
            self.state.set(name, unknown(name, at, why))

    def place(self, node: Node) -> str:
        at = self._source.piece(node)
        return at.file if at.line is None else f"{at.file}:{at.line}"

    def note_end(self, node: Node, message: str) -> None:
        self.ends.append((self._source.piece(node), message))

    @contextmanager
    def _within(self, source: Source) -> Iterator[None]:
        if self._depth >= MAX_CALLS:
            raise source.complaint(source.root, f"calls more than {MAX_CALLS} levels deep")
        self._budget.spend(source.length)
        outer, self._source = self._source, source
        self._depth += 1
        try:
            yield
        finally:
            self._source = outer
            self._depth -= 1

    def _sequence(self, node: Node) -> Status:
        return self._all(node.children)

    def _all(self, nodes: Sequence[Node]) -> Status:
        status: Status = True
        for child in nodes:
            if child.is_named:
                status = self._statement(child)
        return status

    def _statement(self, node: Node) -> Status:
        self._budget.spend()
        follow = _STATEMENTS.get(node.type)
        if follow is not None:
            return follow(self, node)
        if node.type == "ERROR":
            self._error(node)
        return True

    def _error(self, node: Node) -> None:
        """What does not read as bash may set what it names."""
        message = "does not read as bash"
        self.forget(assigned_names(node), node, f"{self.place(node)} {message}")
        self.note_end(node, message)

    def _command(self, node: Node, more: Sequence[Node] = ()) -> Status:
        expander = self.expander()
        name = node.child_by_field_name("name")
        named = [] if name is None else [name]
        words = expander.words([*named, *node.children_by_field_name("argument"), *more])
        if node.has_error and words:
            why = f"{self.place(node)} does not read as bash"
            words.append(self._source.unknown(UNNAMED, node, why))
        prefix = [child for child in node.children if child.type == "variable_assignment"]
        if not words:
            return self._all(prefix)
        names = [text_of(assignment.children[0]) for assignment in prefix]
        before = {each: self.state.variables.get(each) for each in names}
        for assignment in prefix:
            self._assign(assignment, exported=True)
        try:
            return self._invoke(words, node)
        finally:
            for each, variable in before.items():
                self._restore(each, variable)

    def _restore(self, name: str, variable: Variable | None) -> None:
        self.state.variables.pop(name, None)
        if variable is not None:
            self.state.variables[name] = variable

    def _invoke(self, words: Sequence[Text], node: Node) -> Status:
        name = str(words[0])
        function = self.state.functions.get(name)
        if function is not None:
            return self.call(function, words[1:])
        if name in BUILTINS:
            return BUILTINS[name](self, words[1:], node)
        if name in SUCCEEDING:
            return True
        self._budget.spend(len(self.state.variables) + len(self.state.files))
        listed = tuple(text.word() for text in words)
        if words[0].unknown is not None:
            self.ends.append((listed[0], f"what {name} starts is not known: {words[0].unknown}"))
        environment, files = self.state.environment(), dict(self.state.files)
        self.commands.append(Command(listed, environment, self._doubt, files))
        return f"whether {name} succeeds at {self.place(node)} is known only when it runs"

    def _assignments(self, node: Node) -> Status:
        return self._all(node.children)

    def _assignment(self, node: Node) -> Status:
        self._assign(node)
        return True

    def _assign(self, node: Node, *, exported: bool = False) -> None:
        target, value = node.children[0], node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        name = text_of(target)
        expander = self.expander()
        new = self._value(value, node, expander)
        if target.type == "subscript":
            name, new = self._with_item(target, new, expander, adds=adds)
        elif adds:
            new = self._sum(self.state.get(name), new)
        self.state.set(name, new, exported=exported)

    def _value(self, node: Node | None, at: Node, expander: Expander) -> Text | Array:
        if node is None:
            return self._source.text("", at)
        if node.type != "array":
            return expander.value(node)
        inner = [child for child in node.children if child.is_named and child.type != "comment"]
        keyed = [found for child in inner if (found := _keyed(child)) is not None]
        if len(keyed) < len(inner) or not inner:
            return Array.of(expander.words(inner))
        items = {}
        for key, begins, rest in keyed:
            text = self._source.text(begins, at)
            for child in rest:
                text += expander.value(child)
            items[key] = text
        return Array(items)

    def _with_item(
        self, target: Node, value: Text | Array, expander: Expander, *, adds: bool
    ) -> tuple[str, Text | Array]:
        """An array with one item set."""
        name, index = text_of(target.children[0]), target.child_by_field_name("index")
        before = self.state.get(name)
        items = dict(before.items) if isinstance(before, Array) else {}
        self._budget.spend(len(items))
        try:
            key = "" if index is None else expander.value(index).known()
        except NotKnownError as why:
            return name, self._source.unknown(f"${{{name}}}", target, str(why))
        text = value if isinstance(value, Text) else self._source.text("", target)
        items[key] = items[key] + text if adds and key in items else text
        return name, Array(items)

    def _sum(self, before: Text | Array | None, added: Text | Array) -> Text | Array:
        if isinstance(added, Array):
            held = before if isinstance(before, Array) else Array.of([before] if before else [])
            self._budget.spend(len(held.items))
            return held.extended(added.items.values())
        if isinstance(before, Array):
            first = before.items.get("0")
            return Array({**before.items, "0": first + added if first else added})
        if before is None:
            return added
        self._budget.spend(len(str(before)) + len(before.pieces))
        return before + added

    def _declaration(self, node: Node) -> Status:
        """export, declare, typeset, local, readonly."""
        kind, *rest = node.children
        options = "".join(text_of(each) for each in rest if text_of(each).startswith("-"))
        exported = text_of(kind) == "export" or "x" in options
        local = self.locals and text_of(kind) in ("local", "declare", "typeset")
        for each in rest:
            name = text_of(each.children[0] if each.children else each).partition("[")[0]
            if each.type not in ("variable_assignment", "variable_name"):
                continue
            if local:
                self.locals[-1].setdefault(name, self.state.variables.get(name))
            if each.type == "variable_assignment":
                self._assign(each, exported=exported)
            elif exported and (value := self.state.get(name)) is not None:
                self.state.set(name, value, exported=True)
            elif local:
                self.state.variables.pop(name, None)
        return True

    def _unset(self, node: Node) -> Status:
        for child in node.children:
            self.state.variables.pop(text_of(child), None)
        return True

    def _function(self, node: Node) -> Status:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            self.state.functions[text_of(name)] = Function(self._source, body)
        return True

    def _list(self, node: Node) -> Status:
        """a && b, a || b."""
        left, sign, right = node.children[0], node.children[1], node.children[-1]
        status = self._statement(left)
        if isinstance(status, str):
            self._either([lambda: self._statement(right), lambda: True], node, status)
            return status
        return self._statement(right) if status == (text_of(sign) == "&&") else status

    def _negated(self, node: Node) -> Status:
        status = self._statement(node.children[-1])
        return status if isinstance(status, str) else not status

    def _pipeline(self, node: Node) -> Status:
        """Each part runs in a shell of its own."""
        status: Status = True
        for child in node.children:
            if child.is_named:
                status = self._subshell(child)
        return status

    def _subshell(self, node: Node) -> Status:
        outer, self.state = self.state, self.state.copy()
        self._budget.spend(len(self.state.variables))
        try:
            return self._sequence(node) if node.type == "subshell" else self._statement(node)
        except LeftError:
            return "the status of a subshell is known only when it runs"
        finally:
            self.state = outer

    def _compound(self, node: Node) -> Status:
        if text_of(node.children[0]) != "((":
            return self._sequence(node)
        try:
            return arithmetic.evaluate(node, self.expander()) != 0
        except NotKnownError as why:
            self.forget(assigned_names(node), node, str(why))
            return str(why)

    def _test(self, node: Node) -> Status:
        try:
            return conditions.holds(node, self.expander())
        except NotKnownError as why:
            return str(why)

    def _redirected(self, node: Node) -> Status:
        """A command with redirections; words may stand behind them, and a pipe behind <<."""
        body = node.child_by_field_name("body")
        more: list[Node] = []
        pipes: list[Node] = []
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "file_redirect":
                more += redirect.children_by_field_name("destination")[1:]
            elif redirect.type == "heredoc_redirect":
                more += redirect.children_by_field_name("argument")
                pipes += [child for child in redirect.children if child.type in _STATEMENTS]
        file = written(node, self.expander())
        if file is not None:
            self.state.files[file.path] = file.content
        status: Status = True
        if body is not None:
            status = self._command(body, more) if body.type == "command" else self._statement(body)
        for pipe in pipes:
            status = self._statement(pipe)
        return status

    def _if(self, node: Node) -> Status:
        return self._branches(_branches(node), node)

    def _branches(
        self, branches: Sequence[tuple[Sequence[Node] | None, Sequence[Node]]], node: Node
    ) -> Status:
        """The first branch whose condition holds; a condition of None always holds."""
        if not branches:
            return True
        (condition, body), *others = branches
        status = True if condition is None else self._all(condition)
        if isinstance(status, str):
            ways = [lambda: self._all(body), lambda: self._branches(others, node)]
            self._either(ways, node, status)
            return status
        return self._all(body) if status else self._branches(others, node)

    def _case(self, node: Node) -> Status:
        value = node.child_by_field_name("value")
        items = [child for child in node.children if child.type == "case_item"]
        try:
            word = "" if value is None else self.expander().value(value).known()
            chosen = next((item for item in items if self._matches(item, word)), None)
        except NotKnownError as why:
            ways = [lambda item=item: self._all(_body(item)) for item in items]
            self._either([*ways, lambda: True], node, str(why))
            return str(why)
        return True if chosen is None else self._all(_body(chosen))

    def _matches(self, item: Node, word: str) -> bool:
        """Whether one of the patterns before the bracket matches."""
        patterns = [""]
        for child in item.children:
            if child.type == ")":
                break
            if child.type == "|":
                patterns.append("")
            elif child.is_named:
                patterns[-1] += self.expander().pattern(child)
        self._budget.spend(len(word) + sum(map(len, patterns)))
        return any(fnmatchcase(word, pattern) for pattern in patterns)

    def _for(self, node: Node) -> Status:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        if variable is None or body is None:
            return True
        values = node.children_by_field_name("value")
        has_list = any(child.type == "in" for child in node.children)
        words = self.expander().words(values) if has_list else self.state.parameters or ()
        unclear = next((text.unknown for text in words if text.unknown is not None), None)
        if unclear is not None or node.children[0].type == "select":
            self._loose(node, body, unclear or "what is selected is known only when it runs")
            return True

        def rounds() -> None:
            for number, text in enumerate(words, 1):
                self.state.set(text_of(variable), text)
                if not self._round(body, number):
                    break

        self._until_clear(node, rounds, body)
        return True

    def _c_style_for(self, node: Node) -> Status:
        body = node.child_by_field_name("body")
        if body is None:
            return True
        start, condition, step = (
            node.child_by_field_name(name) for name in ("initializer", "condition", "update")
        )

        def rounds() -> None:
            expander = self.expander()
            if start is not None:
                arithmetic.evaluate(start, expander)
            for number in count(1):
                if condition is not None and not arithmetic.evaluate(condition, expander):
                    break
                if not self._round(body, number):
                    break
                expander = self.expander()
                if step is not None:
                    arithmetic.evaluate(step, expander)

        self._until_clear(node, rounds, body)
        return True

    def _while(self, node: Node) -> Status:
        body = node.child_by_field_name("body")
        if body is None:
            return True
        asked = [each for each in node.children_by_field_name("condition") if each.is_named]
        goes_on = node.children[0].type == "while"

        def rounds() -> None:
            for number in count(1):
                status = self._all(asked)
                if isinstance(status, str):
                    raise NotKnownError(status)
                if status != goes_on or not self._round(body, number):
                    return

        self._until_clear(node, rounds, body)
        return True

    def _round(self, body: Node, number: int) -> bool:
        """One round of a loop; whether it may go on."""
        if number > MAX_ROUNDS:
            raise UnclearError(f"it goes round more than {MAX_ROUNDS} times")
        self._loops += 1
        try:
            self._sequence(body)
        except LeftError as left:
            if left.way not in (Way.BREAK, Way.CONTINUE):
                raise
            return left.way is Way.CONTINUE
        finally:
            self._loops -= 1
        return True

    def _until_clear(
        self, node: Node, follow: Callable[[], object], body: Node | None = None
    ) -> None:
        """Follow a loop or a function; if it is not clear how it goes on, see what it may set."""
        if self._loosely:
            self._once(body or node)
            return
        before, commands = self.state.copy(), len(self.commands)
        self._budget.spend(len(before.variables))
        try:
            follow()
        except (UnclearError, NotKnownError) as why:
            self.state = before
            del self.commands[commands:]
            self._loose(node, body or node, str(why))

    def _loose(self, node: Node, body: Node, why: str) -> None:
        """See every statement of a body once; what it sets is not known afterwards."""
        why = _root(f"{self.place(node)} runs in a way that is not known", why)
        self.forget(assigned_names(node), node, why)
        before = self.state
        outer = self._loosely, self._doubt
        self.state, self._loosely, self._doubt = before.copy(), True, self._doubt or why
        try:
            self._once(body)
        finally:
            self._loosely, self._doubt = outer
        self.state = merged([before, self.state], self._source.piece(node), why)

    def _once(self, body: Node) -> None:
        if body.type in ("do_group", "program"):
            self._sequence(body)
        else:
            self._statement(body)

    def _either(self, ways: Sequence[Callable[[], Status]], node: Node, why: str) -> None:
        """Follow each of several ways, of which the script takes one that is not known."""
        why = _root(f"{self.place(node)} depends on what is not known", why)
        before, outer = self.state, self._doubt
        states: list[State] = []
        unclear = False
        self._doubt = outer or why
        for way in ways:
            self._budget.spend(len(before.variables))
            self.state = before.copy()
            try:
                way()
            except LeftError as left:
                unclear = unclear or left.way is not Way.EXIT
            else:
                states.append(self.state)
        self._doubt = outer
        self.state = before
        if unclear:
            raise UnclearError(why)
        if not states:
            raise LeftError(Way.EXIT)
        self.state = merged(states, self._source.piece(node), why)


_STATEMENTS: Mapping[str, Callable[[Script, Node], Status]] = {
    "c_style_for_statement": Script._c_style_for,
    "case_statement": Script._case,
    "command": Script._command,
    "compound_statement": Script._compound,
    "declaration_command": Script._declaration,
    "for_statement": Script._for,
    "function_definition": Script._function,
    "if_statement": Script._if,
    "list": Script._list,
    "negated_command": Script._negated,
    "pipeline": Script._pipeline,
    "program": Script._sequence,
    "redirected_statement": Script._redirected,
    "subshell": Script._subshell,
    "test_command": Script._test,
    "unset_command": Script._unset,
    "variable_assignment": Script._assignment,
    "variable_assignments": Script._assignments,
    "while_statement": Script._while,
}


def _root(what: str, why: str) -> str:
    """Why something is not known; of what rests on another unknown, the first cause alone."""
    return why if " not known: " in why else f"{what}: {why}"


def _branches(node: Node) -> list[tuple[Sequence[Node] | None, Sequence[Node]]]:
    """The condition and the body of each branch of an if; None for the last one's else."""
    clauses = [child for child in node.children if child.type in ("elif_clause", "else_clause")]
    own = [child for child in node.children if child not in clauses]
    found: list[tuple[Sequence[Node] | None, Sequence[Node]]] = [_halves(own)]
    for clause in clauses:
        if clause.type == "else_clause":
            found.append((None, clause.children))
        else:
            found.append(_halves(clause.children))
    return found


def _halves(nodes: Sequence[Node]) -> tuple[Sequence[Node], Sequence[Node]]:
    """What stands before `then` and what behind."""
    at = next((index for index, node in enumerate(nodes) if node.type == "then"), len(nodes))
    return nodes[:at], nodes[at + 1 :]


def _body(item: Node) -> Sequence[Node]:
    """What stands behind the patterns of a case."""
    ends = [index for index, child in enumerate(item.children) if child.type == ")"]
    return item.children[ends[0] + 1 :] if ends else ()


def _keyed(node: Node) -> tuple[str, str, Sequence[Node]] | None:
    """The key of [key]=value in an array, how the value begins, and the rest of it."""
    text = text_of(node)
    if node.type != "concatenation" or not text.startswith("[") or "]=" not in text:
        return None
    for index, child in enumerate(node.children):
        head, sign, begins = text_of(child).partition("=")
        if sign and head in ("", "]"):
            return text[1:].partition("]=")[0].strip("\"'"), begins, node.children[index + 1 :]
    return None
