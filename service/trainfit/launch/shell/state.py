"""The variables, the parameters, the functions and the options of a shell at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import MAX_LENGTH
from trainfit.launch.shell.syntax import Node
from trainfit.launch.shell.text import Array, NotKnownError, Text

T = TypeVar("T")

Value = Text | Array

MAX_STEPS = 20_000
"""Statements that are followed and words that are put together; a long script has a thousand."""

MAX_REFERENCES = 8
"""Names that stand for each other."""

LIVE = frozenset(
    (
        *("BASHOPTS", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS"),
        *("BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO"),
        *("BASH_VERSION", "BASH", "COLUMNS", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME"),
        *("EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "HOSTTYPE"),
        *("LINENO", "LINES", "MACHTYPE", "OLDPWD", "OSTYPE", "PATH", "PIPESTATUS", "PPID"),
        *("PWD", "RANDOM", "SECONDS", "SHELL", "SHELLOPTS", "SHLVL", "SRANDOM"),
        *("TERM", "UID", "HOSTNAME", "HOME", "PS4", "_"),
    )
)
"""Variables that the shell sets itself: what a script does not set may still have a value."""

DYNAMIC = frozenset(
    (
        *("BASHPID", "BASH_ARGV0", "BASH_COMMAND", "BASH_SUBSHELL", "DIRSTACK", "EPOCHREALTIME"),
        *("BASH_LINENO", "BASH_SOURCE", "BASHOPTS", "BASH_VERSINFO", "EPOCHSECONDS", "EUID"),
        *("FUNCNAME", "GROUPS", "HISTCMD", "LINENO", "PIPESTATUS", "PPID", "RANDOM", "SECONDS"),
        *("SHELLOPTS", "SRANDOM", "UID", "_", "BASH_ARGC", "BASH_ARGV", "BASH_CMDS"),
    )
)
"""Those of them that do not keep what a script gives them."""


class Budget:
    """Bounds the work that a launch may ask for, however its scripts repeat themselves."""

    def __init__(self) -> None:
        self.steps = 0
        self.length = 0

    def spend(self, length: int = 0) -> None:
        """One step, and the length of what it reads or puts together. Raises ShellError."""
        self.spend_again(1, length)

    def spend_again(self, steps: int, length: int) -> None:
        """What was spent on something before and is known since. Raises ShellError."""
        self.steps += steps
        self.length += length
        if self.steps > MAX_STEPS:
            raise ShellError(f"its scripts ask for more than {MAX_STEPS} steps")
        if self.length > MAX_LENGTH:
            message = f"its scripts put together more than {MAX_LENGTH} signs"
            raise ShellError(message)


class Variable(NamedTuple):
    """What a name stands for; None as its value where it is known not to be set."""

    value: Value | None
    exported: bool = False
    integer: bool = False
    readonly: bool = False
    case: str = ""
    """u or l where what is assigned is put into capitals or small letters; ? where anything may
    become of it.
    """
    reference: bool = False
    """Whether the value is the name of another variable that is meant."""
    keyed: bool = False
    """Whether it is an associative array."""
    doubt: str = ""
    """Why it is not known whether it is exported."""


class Variables(dict[str, Variable]):
    """The variables by their names. What of them is exported is put together once, for all the
    commands that are started until one of them changes.
    """

    def __init__(self, variables: Mapping[str, Variable] | None = None) -> None:
        super().__init__(variables or {})
        self._environment: Mapping[str, Piece] = {}
        self._changed = dict.fromkeys(self)

    def copy(self) -> Variables:
        copied = Variables()
        copied.update(self)
        copied._environment, copied._changed = self._environment, self._changed.copy()
        return copied

    def __setitem__(self, name: str, variable: Variable) -> None:
        super().__setitem__(name, variable)
        self._changed[name] = None

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed[name] = None

    def environment(self, spend: Callable[[int], None]) -> Mapping[str, Piece]:
        """The exported variables. `spend` is called with what it takes to put them together."""
        exported = {name: value for name in self._changed for value in self._exported(name)}
        dropped = self._environment.keys() & (self._changed.keys() - exported.keys())
        self._changed.clear()
        if exported or dropped:
            length = sum(len(value.text) for value in exported.values())
            spend(len(self._environment) + 8 * len(exported) + length)
            found = {**self._environment, **exported}
            self._environment = {name: found[name] for name in found if name not in dropped}
        return self._environment

    def _exported(self, name: str) -> Iterator[Piece]:
        variable = self.get(name)
        if variable is not None and variable.exported and isinstance(variable.value, Text):
            word = variable.value.word()
            doubt = word.unknown or variable.doubt or None
            pieces = () if variable.doubt else word.pieces
            yield Piece(word.text, word.file, word.line, doubt, pieces)


class Function(NamedTuple):
    """The body of a function; None where it is not known which of several it is."""

    body: Node | None
    place: Piece


@dataclass(slots=True)
class State:
    """A shell at one moment. `parameters` are None where a script's were not given.

    `missing` are files that it reads and that were not sent: they may set what is not set. `own`
    are names that the scripts themselves give values: where they have given none, there is none.
    `files` are those that they have written, by their paths. `frames` hold, for each function
    around, what its local variables hide. `options` are those of set and shopt that are on,
    `unclear` those of which it is not known. `stdin` is what is left to be read, if that is known,
    and `sent` are the paths of files that came with the scripts.
    """

    variables: Variables = field(default_factory=Variables)
    parameters: tuple[Text, ...] | None = None
    name: Text | None = None
    functions: dict[str, Function] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    files: Mapping[str, Piece] = field(default_factory=dict)
    frames: list[dict[str, Variable | None]] = field(default_factory=list)
    options: frozenset[str] = frozenset()
    unclear: frozenset[str] = frozenset()
    traps: dict[str, Text] = field(default_factory=dict)
    stdin: Text | None = None
    sent: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether a file of this path was sent, and not moved since, or was written."""
        written = self.files.get(path)
        if written is not None:
            return written.unknown is None
        path = path.removeprefix("./")
        named = any(
            path == each or path.endswith(f"/{each}") or each.endswith(f"/{path}")
            for each in self.sent
        )
        return named and not self.has_written(path.rpartition("/")[2])

    def has_written(self, name: str) -> bool:
        """Whether the script has written or changed a file of this last name."""
        return any(each.rpartition("/")[2] == name for each in self.files)

    def copy(self) -> State:
        return replace(
            self,
            variables=self.variables.copy(),
            functions=dict(self.functions),
            frames=[dict(frame) for frame in self.frames],
            traps=dict(self.traps),
        )

    @property
    def size(self) -> int:
        """How much a copy of this holds."""
        return len(self.variables) + len(self.functions) + len(self.files)

    def get(self, name: str) -> Value | None:
        """A variable, or a parameter by its number; None where it is not set."""
        if name.isdecimal():
            return self.parameter(int(name))
        variable = self.variables.get(name)
        if variable is not None and variable.reference:
            variable = self.variables.get(self.meant(name))
        return None if variable is None else variable.value

    def meant(self, name: str) -> str:
        """The name of the variable that another one stands for. Raises NotKnownError."""
        for _ in range(MAX_REFERENCES):
            variable = self.variables.get(name)
            if variable is None or not variable.reference:
                return name
            text = variable.value
            if not isinstance(text, Text) or not text.known().isidentifier():
                break
            name = str(text)
        raise NotKnownError(f"which variable {name} stands for is not read")

    def put(self, name: str, value: Value) -> None:
        """Give a variable a value; it stays what it is otherwise."""
        before = self.variables.get(name, Variable(None))
        exported = before.exported or self.on("allexport")
        self.variables[name] = before._replace(value=value, exported=exported)

    def restore(self, name: str, variable: Variable | None) -> None:
        """Give a variable back what it was; what another hid is what it was before that."""
        if variable is not None:
            self.variables[name] = variable
        elif name in self.variables:
            del self.variables[name]

    def write(self, path: str, content: Piece) -> None:
        """Take a file to hold this; commands that were started have what it held before."""
        self.files = {**self.files, path: content}

    def leave_function(self, depth: int, parameters: tuple[Text, ...] | None) -> None:
        """Give back what the functions hid that were called from this depth on."""
        self.parameters = parameters
        while len(self.frames) > depth:
            for name, variable in self.frames.pop().items():
                self.restore(name, variable)

    def drop(self, name: str) -> None:
        """Unset a variable."""
        self.variables[name] = Variable(None)

    def on(self, option: str) -> bool:
        """Whether an option is on. Raises ShellError where that is not known."""
        if option in self.unclear:
            raise ShellError(f"whether the shell's option {option} is on is not known")
        return option in self.options

    def unset(self, name: str) -> str:
        """Why a name that is not set is not known, and what to give."""
        if name.isdecimal():
            return f"${name} is not given; give the arguments of the script in argv, [] for none"
        hint = f" ({', '.join(self.missing)} may set it and was not sent)" if self.missing else ""
        return f"{name} is not set{hint}; give it in env"

    def is_empty(self, name: str) -> bool:
        """Whether it is known that a name that is not set stands for nothing."""
        if name.isdecimal():
            return self.parameters is not None and name != "0"
        if name in self.variables:
            return self.variables[name].value is None and name not in DYNAMIC
        return name in self.own and not self.missing and name not in LIVE

    def parameter(self, number: int) -> Text | None:
        """A parameter; None where there is none. Raises NotKnownError."""
        if number == 0:
            if self.name is None:
                raise NotKnownError("$0 is known only when it runs")
            return self.name
        parameters = self.parameters or ()
        for each in parameters[:number]:
            if each.spreads:
                raise NotKnownError(str(each.unknown))
        return parameters[number - 1] if number <= len(parameters) else None

    def count(self) -> int:
        """The number of parameters. Raises NotKnownError."""
        if self.parameters is None:
            raise NotKnownError(self.unset("1"))
        for each in self.parameters:
            if each.spreads:
                raise NotKnownError(str(each.unknown))
        return len(self.parameters)


def merged(states: Sequence[State], at: Piece, why: str) -> State:
    """What holds in each of several states, of which one came about; why it is not known which."""
    first, *others = states
    result = first.copy()
    _merge(result.variables, [state.variables for state in states], at, why)
    for frame, *frames in zip(result.frames, *(state.frames for state in states), strict=False):
        _merge_frames(frame, frames, at, why)
    if any(state.parameters != first.parameters for state in others):
        result.parameters = (replace(unknown("1", at, why), spreads=True),)
    for name in dict.fromkeys(name for state in states for name in state.functions):
        bodies = {id(state.functions[name].body) for state in states if name in state.functions}
        everywhere = all(name in state.functions for state in states)
        if len(bodies) > 1 or not everywhere:
            result.functions[name] = Function(None, at)
    for path in dict.fromkeys(path for state in states for path in state.files):
        written = {state.files.get(path) for state in states}
        if len(written) > 1:
            lost = Piece("", at.file, at.line, f"{path} is written or not: {why}")
            result.write(path, lost)
    union = frozenset[str]().union(*(state.options for state in states))
    common = union.intersection(*(state.options for state in states))
    unclear = (state.unclear for state in states)
    result.unclear = (union - common).union(*unclear)
    result.options = common
    _merge_traps(result, states, at, why)
    if any(state.stdin is not first.stdin for state in others):
        result.stdin = None
    result.missing = tuple(dict.fromkeys(path for state in states for path in state.missing))
    return result


def unknown(name: str, at: Piece, why: str) -> Text:
    """The value of a variable that may be any of several."""
    return Text.of(f"${{{name}}}", at.file, at.line, why)


def _merge_traps(result: State, states: Sequence[State], at: Piece, why: str) -> None:
    for signal in dict.fromkeys(signal for state in states for signal in state.traps):
        held = [state.traps.get(signal) for state in states]
        if any(each is None or str(each) != str(held[0]) for each in held):
            result.traps[signal] = Text.at(at, "$(...)", why)


def _merge(
    into: dict[str, Variable], variables: Sequence[Mapping[str, Variable]], at: Piece, why: str
) -> None:
    for name in dict.fromkeys(name for each in variables for name in each):
        held = [each.get(name) for each in variables]
        if any(each is not held[0] for each in held[1:]):
            into[name] = _common(name, held, at, why)


def _merge_frames(
    into: dict[str, Variable | None],
    frames: Sequence[Mapping[str, Variable | None]],
    at: Piece,
    why: str,
) -> None:
    for name in dict.fromkeys(name for each in frames for name in each):
        held = [each.get(name) for each in frames]
        if any(each is not held[0] for each in held[1:]):
            into[name] = _common(name, held, at, why)


def _common(name: str, held: Sequence[Variable | None], at: Piece, why: str) -> Variable:
    """What several variables have in common; the value of one that is not set is its absence."""
    values = [None if each is None else each.value for each in held]
    kinds = {None if each is None else each._replace(value=None) for each in held}
    any_exported = any(each is not None and each.exported for each in held)
    found = next(each for each in held if each is not None)
    plain = {(kind or Variable(None))._replace(exported=False, doubt="") for kind in kinds}
    doubt = next((kind.doubt for kind in kinds if kind is not None and kind.doubt), "")
    if any_exported and not all(kind is not None and kind.exported for kind in kinds):
        doubt = why
    if len(plain) > 1:
        refers = any(each is not None and each.reference for each in held)
        lost = replace(unknown(name, at, why), spreads=True)
        return Variable(lost, any_exported, case="?", reference=refers, doubt=doubt)
    value: Value | None
    if None not in held and all(each is None for each in values):
        value = None
    else:
        value = _common_value(name, values, at, why)
    return found._replace(value=value, exported=any_exported, doubt=doubt)


def _common_value(name: str, values: Sequence[Value | None], at: Piece, why: str) -> Value:
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
            begins = any(piece.text and piece.unknown is None for piece in pieces)
            apart = (Piece(" ", at.file, at.line),) if begins and _stand_apart(ends) else ()
            spreads = any(text.spreads for text in texts)
            return Text((*pieces, *apart, *rest.pieces), spreads)
    elif isinstance(first, Array):
        arrays = [value for value in values if isinstance(value, Array)]
        if len(arrays) == len(values):
            if all(first.same(array) for array in arrays):
                return first
            if not any(array.keyed for array in arrays):
                items = _prefix([_in_order(array) for array in arrays], Text.same)
                return Array.of((*items, replace(rest, spreads=True)))
    return replace(rest, spreads=True)


def _in_order(array: Array) -> Sequence[Text]:
    """The items from 0 on, up to the first index that has none."""
    items: list[Text] = []
    for index, item in array.items.items():
        if index != str(len(items)):
            break
        items.append(item)
    return items


def _stand_apart(ends: Sequence[str]) -> bool:
    """Whether what follows begins a new word, whichever of these it is."""
    return all(not end or end[0].isspace() for end in ends)


def _same_word(one: Piece, two: Piece) -> bool:
    return one == two and one.unknown is None


def _prefix(rows: Sequence[Sequence[T]], same: Callable[[T, T], bool]) -> Sequence[T]:
    """The items that all rows begin with."""
    length = 0
    for items in zip(*rows, strict=False):
        if not all(same(items[0], item) for item in items[1:]):
            break
        length += 1
    return rows[0][:length]
