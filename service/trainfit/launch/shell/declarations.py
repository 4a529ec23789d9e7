"""declare, typeset, local, export and readonly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainfit.launch.shell import assignments, braces
from trainfit.launch.shell.flow import Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.state import Value, Variable
from trainfit.launch.shell.syntax import Assignment, Simple, Word
from trainfit.launch.shell.text import Array, NotKnownError, Text

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(\+?)=(.*))?", re.DOTALL)
_READ = frozenset("aAgilnrtux")


@dataclass(frozen=True, slots=True)
class _Named:
    """One name that is declared, with what is assigned to it."""

    name: str
    place: Piece
    value: Value | None = None
    index: str | None = None
    adds: bool = False


def declare(script: ShellScript, kind: str, node: Simple) -> Status:
    """Follow a declaration: every value is expanded before any variable is declared."""
    options, names = "", list[_Named]()
    for word in node.words[1:]:
        if isinstance(word, Assignment):
            keyed = "A" in options
            names += [_assigned(script, each, keyed=keyed) for each in _braced(script, word)]
            continue
        for text in script.expander().words([word]):
            written = str(text)
            if not names and re.fullmatch(r"[-+][A-Za-z]+", written):
                options += written
            elif written != "--":
                names += _named(script, text, word)
    on, off = _letters(options)
    if kind == "local" and not script.in_function:
        return 1
    if "p" in on or "f" in on or "F" in on or not names:
        return _listed(script, kind, on, node.place)
    if (on | off) - _READ - ({"n"} if kind == "export" else set()):
        script.not_followed(node.place, f"{kind} {options}")
    status = 0
    local = script.in_function and kind in ("local", "declare", "typeset") and "g" not in on
    for each in names:
        status = max(status, _declared(script, kind, each, on, off, local=local))
    return status


def _braced(script: ShellScript, node: Assignment) -> Sequence[Assignment]:
    """The assignments that one with braces stands for, as a word of a command."""
    if not isinstance(node.value, Word):
        return [node]
    values = braces.expanded(node.value, script.budget.spend)
    return [replace(node, value=value) for value in values]


def _letters(options: str) -> tuple[set[str], set[str]]:
    on: set[str] = set()
    off: set[str] = set()
    for sign, letters in re.findall(r"([-+])([A-Za-z]+)", options):
        (on if sign == "-" else off).update(letters)
    return on, off


def _listed(script: ShellScript, kind: str, on: set[str], place: Piece) -> Status:
    if kind == "export" and "f" in on:
        return 0
    why = f"what {kind} prints at {script.where(place)} is known only when it runs"
    script.emit(Text.at(place, "$(...)", why))
    return why


def _assigned(script: ShellScript, node: Assignment, *, keyed: bool) -> _Named:
    keyed = keyed or script.state.variables.get(node.name, Variable(None)).keyed
    value = assignments.value_of(script, node.value, keyed=keyed)
    index = None
    if node.index is not None:
        try:
            text = script.expander().value(node.index)
            number = script.expander().calculated
            index = text.known() if keyed else str(number(text, node.place))
        except NotKnownError as why:
            lost = Text.at(node.place, f"${{{node.name}}}", str(why))
            value = Text(lost.pieces, spreads=True)
    return _Named(node.name, node.place, value, index, node.adds)


def _named(script: ShellScript, text: Text, node: Word) -> list[_Named]:
    """NAME or NAME=value as a word comes out; what is not known may set any variable."""
    written = str(text)
    if text.spreads and text.pieces[0].unknown is not None:
        why = f"what {script.where(node.place)} exports"
        script.state.missing = (*script.state.missing, why)
        return []
    found = _NAMED.fullmatch(written)
    if found is None:
        if re.match(r"[A-Za-z_]\w*\[", written):
            script.not_followed(node.place, f"the declaration of {written}")
        return []
    if found[3] is None:
        return [_Named(found[1], node.place)]
    if found[3].startswith("("):
        script.not_followed(node.place, f"the declaration of {written}")
    left, pieces = found.start(3), list[Piece]()
    for piece in text.pieces:
        if len(piece.text) <= left and piece.unknown is None:
            left -= len(piece.text)
        else:
            known = piece.unknown is None
            pieces.append(replace(piece, text=piece.text[left:]) if known else piece)
            left = 0
    value = Text(tuple(pieces)) if pieces else Text.at(node.place, "")
    return [_Named(found[1], node.place, value, None, bool(found[2]))]


def _declared(
    script: ShellScript, kind: str, named: _Named, on: set[str], off: set[str], *, local: bool
) -> int:
    state, name = script.state, named.name
    before = state.variables.get(name)
    if kind in ("declare", "typeset", "local") and "g" in on and script.in_function:
        for frame in state.frames:
            if name in frame:
                return _declared_outside(script, kind, named, on, off, frame)
    if before is not None and before.readonly and (named.value is not None or local):
        if named.value is None and not local:
            return 0
        if kind == "export":
            state.variables[name] = _with(before, kind, on, off)
        return 1
    if local and name not in state.frames[-1]:
        state.frames[-1][name] = before
        exported = before is not None and before.exported
        state.variables[name] = Variable(None, exported, doubt=before.doubt if before else "")
    variable = state.variables.get(name, before)
    missing = variable is None
    variable = _with(variable or Variable(None), kind, on, off)
    if missing and named.value is None and not _known_unset(script, name, variable):
        lasts = kind in ("export", "readonly") or not on & set("aA")
        if lasts:
            if kind == "readonly" or variable.integer or variable.case:
                script.not_followed(named.place, f"{kind} of {name}, which may be set elsewhere,")
            return 0
    reference, readonly = variable.reference, variable.readonly
    state.variables[name] = variable._replace(readonly=False, reference=False)
    if named.value is not None:
        value = named.value
        if variable.keyed and isinstance(value, Array) and not value.keyed:
            value = Array(value.items, keyed=True)
        script.assign(name, value, named.place, named.index, adds=named.adds)
    state.variables[name] = state.variables[name]._replace(readonly=readonly, reference=reference)
    return 0


def _known_unset(script: ShellScript, name: str, variable: Variable) -> bool:
    return script.state.is_empty(name) or variable.keyed


def _declared_outside(
    script: ShellScript,
    kind: str,
    named: _Named,
    on: set[str],
    off: set[str],
    frame: dict[str, Variable | None],
) -> int:
    """declare -g of a name that a function around hides."""
    name = named.name
    inner = script.state.variables.get(name)
    script.state.restore(name, frame[name])
    frames, script.state.frames = script.state.frames, []
    try:
        status = _declared(script, kind, named, on - {"g"}, off, local=False)
    finally:
        script.state.frames = frames
    frame[name] = script.state.variables.get(name)
    script.state.restore(name, inner)
    return status


def _with(variable: Variable, kind: str, on: set[str], off: set[str]) -> Variable:
    """The variable as it is declared."""
    if kind == "export":
        return variable._replace(exported="n" not in on, doubt="")
    if kind == "readonly" or "r" in on:
        variable = variable._replace(readonly=True)
    if "x" in on or "x" in off:
        variable = variable._replace(exported="x" in on, doubt="")
    if "i" in on or "i" in off:
        variable = variable._replace(integer="i" in on)
    if "n" in on or "n" in off:
        variable = variable._replace(reference="n" in on)
    for letter in "ul":
        if letter in on:
            variable = variable._replace(case=letter)
        elif letter in off and variable.case == letter:
            variable = variable._replace(case="")
    if "A" in on and not variable.keyed:
        value = variable.value if isinstance(variable.value, Array) else None
        variable = variable._replace(keyed=True, value=value)
    if "a" in on and isinstance(variable.value, Text):
        variable = variable._replace(value=Array({"0": variable.value}))
    return variable
