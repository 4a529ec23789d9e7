"""The variables, the parameters and the functions of a shell at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trainfit.launch.commands.shell.source import MAX_LENGTH, Source
from trainfit.launch.commands.shell.text import Array, NotKnownError, Text
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Word
from trainfit.launch.settings import Setting

if TYPE_CHECKING:
    from tree_sitter import Node

T = TypeVar("T")

Value = Text | Array

MAX_STEPS = 20_000
"""Statements that are followed and words that are put together; a long script has a thousand."""


class Budget:
    """Bounds the work that a launch may ask for, however its scripts repeat themselves."""

    def __init__(self) -> None:
        self._steps = 0
        self._length = 0

    def spend(self, length: int = 0) -> None:
        """One step, and the length of what it reads or puts together. Raises LaunchError."""
        self._steps += 1
        self._length += length
        if self._steps > MAX_STEPS or self._length > MAX_LENGTH:
            raise LaunchError(Complaint("its scripts ask for more steps than are followed"))


class Variable(NamedTuple):
    value: Value
    exported: bool = False


class Function(NamedTuple):
    source: Source
    body: Node


@dataclass(slots=True)
class State:
    """A shell at one moment. `parameters` are None where a script's were not given.

    `missing` are files that it reads and that were not sent: they may set what is not set. `own`
    are names that the scripts themselves give values: where they have given none, there is none.
    `files` are those that they have written, by their paths.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    parameters: tuple[Text, ...] | None = None
    name: Text | None = None
    functions: dict[str, Function] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    files: dict[str, Word] = field(default_factory=dict)

    def copy(self) -> State:
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            files=dict(self.files),
        )

    def get(self, name: str) -> Value | None:
        """A variable, or a parameter by its number; None where it is not set."""
        if name.isdecimal():
            return self._parameter(int(name))
        variable = self.variables.get(name)
        return None if variable is None else variable.value

    def set(self, name: str, value: Value, *, exported: bool = False) -> None:
        before = self.variables.get(name)
        was_exported = before is not None and before.exported
        self.variables[name] = Variable(value, exported or was_exported)

    def unset(self, name: str) -> str:
        """Why a name that is not set is not known, and what to give."""
        if name.isdecimal():
            return f"${name} is not given; give the arguments of the script in argv, [] for none"
        hint = f" ({', '.join(self.missing)} may set it and was not sent)" if self.missing else ""
        return f"{name} is not set{hint}; give it in env"

    def is_empty(self, name: str) -> bool:
        """Whether it is known that a name that is not set stands for nothing."""
        if name.isdecimal():
            return self.parameters is not None
        return name in self.own and not self.missing

    def count(self) -> int:
        """The number of parameters. Raises NotKnownError."""
        if self.parameters is None:
            raise NotKnownError(self.unset("1"))
        return len(self.parameters)

    def environment(self) -> Mapping[str, Setting]:
        """The exported variables."""
        return {
            name: variable.value.setting(name)
            for name, variable in self.variables.items()
            if variable.exported and isinstance(variable.value, Text)
        }

    def _parameter(self, number: int) -> Text | None:
        if number == 0:
            return self.name
        parameters = self.parameters or ()
        return parameters[number - 1] if number <= len(parameters) else None


def merged(states: Sequence[State], at: Word, why: str) -> State:
    """What holds in each of several states, of which one came about; why it is not known which."""
    first, *others = states
    result = first.copy()
    for name in dict.fromkeys(name for state in states for name in state.variables):
        held = [state.variables.get(name) for state in states]
        if any(each is not held[0] for each in held[1:]):
            values = [None if each is None else each.value for each in held]
            exported = any(each is not None and each.exported for each in held)
            result.variables[name] = Variable(_common(name, values, at, why), exported)
    if any(state.parameters != first.parameters for state in others):
        result.parameters = (unknown("1", at, why),)
    for state in others:
        result.functions.update(state.functions)
    for path in dict.fromkeys(path for state in states for path in state.files):
        written = {state.files.get(path) for state in states}
        if len(written) > 1:
            result.files[path] = Word("", at.file, at.line, f"{path} is written or not: {why}")
    return result


def unknown(name: str, at: Word, why: str) -> Text:
    """The value of a variable that may be any of several."""
    return Text.of(f"${{{name}}}", at.file, at.line, why)


def _common(name: str, values: Sequence[Value | None], at: Word, why: str) -> Value:
    """What several values begin with, and the rest unknown."""
    first = values[0]
    rest = unknown(name, at, why)
    if isinstance(first, Text):
        texts = [value for value in values if isinstance(value, Text)]
        if len(texts) == len(values):
            if all(first.same(text) for text in texts):
                return first
            pieces = _prefix([text.pieces for text in texts], _same_word)
            ends = [str(Text(text.pieces[len(pieces) :])) for text in texts]
            apart = (Word(" ", at.file, at.line),) if _stand_apart(ends) else ()
            return Text((*pieces, *apart, *rest.pieces))
    elif isinstance(first, Array):
        arrays = [value for value in values if isinstance(value, Array)]
        if len(arrays) == len(values):
            if all(first.same(array) for array in arrays):
                return first
            items = _prefix([tuple(array.items.values()) for array in arrays], Text.same)
            return Array.of((*items, rest))
    return rest


def _stand_apart(ends: Sequence[str]) -> bool:
    """Whether what follows begins a new word, whichever of these it is."""
    return all(not end or end[0].isspace() for end in ends)


def _same_word(one: Word, two: Word) -> bool:
    return one == two


def _prefix(rows: Sequence[Sequence[T]], same: Callable[[T, T], bool]) -> Sequence[T]:
    """The items that all rows begin with."""
    length = 0
    for items in zip(*rows, strict=False):
        if not all(same(items[0], item) for item in items[1:]):
            break
        length += 1
    return rows[0][:length]
