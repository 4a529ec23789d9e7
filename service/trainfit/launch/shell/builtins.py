"""Commands of the shell itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainfit.launch.shell import arithmetic, conditions, formatting, functions, reading
from trainfit.launch.shell.arithmetic import BadExpressionError
from trainfit.launch.shell.flow import Jump, Status
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.source import Source
from trainfit.launch.shell.state import Function, Variable
from trainfit.launch.shell.text import Array, NotKnownError, Text, joined

if TYPE_CHECKING:
    from trainfit.launch.shell.script import ShellScript

Words = Sequence[Text]

SUCCEEDING = frozenset(
    ("chmod", "chown", "cp", "date", "ln", "ls", "mkdir", "module", "mv", "rm", "sleep", "touch")
)
"""Programs that prepare a run, which comes about only where they succeed."""

_LETTERS: Mapping[str, str] = {
    "a": "allexport",
    "e": "errexit",
    "E": "errtrace",
    "f": "noglob",
    "k": "keyword",
    "n": "noexec",
    "u": "nounset",
    "T": "functrace",
}
_NOT_FOLLOWED = frozenset(("noexec", "keyword", "expand_aliases", "posix"))
_ITEM = re.compile(r"([A-Za-z_]\w*)\[(.+)\]", re.DOTALL)


def _true(_script: ShellScript, _words: Words, _place: Piece) -> Status:
    return 0


def _false(_script: ShellScript, _words: Words, _place: Piece) -> Status:
    return 1


def _unknown(script: ShellScript, _words: Words, place: Piece) -> Status:
    why = f"what a command at {script.where(place)} does is known only when it runs"
    script.emit(Text.at(place, "$(...)", why))
    return why


def _echo(script: ShellScript, words: Words, place: Piece) -> Status:
    script.emit(formatting.echoed(words, place))
    return 0


def _printf(script: ShellScript, words: Words, place: Piece) -> Status:
    into = None
    if len(words) > 1 and str(words[0]) == "-v":
        into, words = str(words[1]), words[2:]
    elif words and str(words[0]) == "--":
        words = words[1:]
    if not words:
        return 2
    status: Status
    try:
        text, status = formatting.printed(words, place)
    except NotKnownError as why:
        text, status = Text.at(place, "$(...)", str(why)), str(why)
    if into is None:
        script.emit(text)
    elif found := _ITEM.fullmatch(into):
        script.assign(found[1], text, place, _index(script, found[1], found[2], place))
    elif into.isidentifier():
        script.assign(into, text, place)
    else:
        return 2
    return status


def _index(script: ShellScript, name: str, index: str, place: Piece) -> str:
    if script.state.variables.get(name, Variable(None)).keyed:
        return index.strip("\"'")
    return str(script.expander().calculated(Text.at(place, index), place))


ENDS = "the script may end here, before it trains"


def _exit(script: ShellScript, words: Words, place: Piece) -> Status:
    if words and str(words[0]) not in ("0", "$?"):
        script.meets_guards = True
        if script.passes_guards:
            script.passed.append(place)
            return 0
    script.note_end(place, ENDS)
    script.leave(Jump.EXIT, place, _given_status(script, words))
    return 0


def _return(script: ShellScript, words: Words, place: Piece) -> Status:
    script.leave(Jump.RETURN, place, _given_status(script, words))
    return 2


def _given_status(script: ShellScript, words: Words) -> Status:
    if not words:
        return script.status
    if words[0].unknown is not None:
        return words[0].unknown
    number = arithmetic.integer(str(words[0]))
    return 2 if number is None else number % 256


def _break(script: ShellScript, words: Words, place: Piece) -> Status:
    return _left(script, words, place, Jump.BREAK)


def _continue(script: ShellScript, words: Words, place: Piece) -> Status:
    return _left(script, words, place, Jump.CONTINUE)


def _left(script: ShellScript, words: Words, place: Piece, way: Jump) -> Status:
    levels = 1 if not words else arithmetic.integer(words[0].known())
    if levels is None or (levels < 1 and not script.loosely):
        script.not_followed(place, "how many loops are left here")
    script.leave(way, place, levels=max(levels, 1))
    return 0


def _shift(script: ShellScript, words: Words, place: Piece) -> Status:
    state = script.state
    if state.parameters is None:
        return state.unset("1")
    try:
        by = 1 if not words else arithmetic.integer(words[0].known())
        if by is None or by < 0:
            return 1
        if by > 0 and state.parameters:
            state.parameter(min(by, len(state.parameters)))
        if by > len(state.parameters):
            state.count()
            return 1
    except NotKnownError as why:
        state.parameters = (Text(Text.at(place, "${1}", str(why)).pieces, spreads=True),)
        return str(why)
    if script.loosely:
        why_not = "it runs in a way that is not known"
        state.parameters = (Text(Text.at(place, "${1}", why_not).pieces, spreads=True),)
    else:
        state.parameters = state.parameters[by:]
    return 0


def _set(script: ShellScript, words: Words, place: Piece) -> Status:
    """Options of the shell, and its parameters behind them."""
    at = 0
    while at < len(words):
        text = str(words[at])
        if text in ("--", "-") or text[:1] not in ("-", "+") or len(text) < 2:
            break
        on, at = text[0] == "-", at + 1
        for letter in text[1:]:
            if letter == "o":
                if at < len(words):
                    switch(script, str(words[at]), place, on=on)
                    at += 1
            elif letter in _LETTERS:
                switch(script, _LETTERS[letter], place, on=on)
    if at < len(words):
        behind = str(words[at]) in ("--", "-") and words[at].unknown is None
        script.state.parameters = tuple(words[at + behind :])
        if script.loosely:
            why = "it runs in a way that is not known"
            first = Text.at(place, "${1}", why)
            script.state.parameters = (Text(first.pieces, spreads=True),)
    return 0


def switch(script: ShellScript, option: str, place: Piece, *, on: bool) -> None:
    """Switch an option of the shell."""
    if on and option in _NOT_FOLLOWED:
        script.not_followed(place, f"the option {option}")
    state = script.state
    if script.loosely and on != (option in state.options):
        state.unclear = state.unclear | {option}
        return
    state.unclear = state.unclear - {option}
    state.options = state.options | {option} if on else state.options - {option}


def _shopt(script: ShellScript, words: Words, place: Piece) -> Status:
    flags = {str(text) for text in words if str(text).startswith("-")}
    names = [str(text) for text in words if not str(text).startswith("-")]
    joined_flags = "".join(flags)
    if "s" in joined_flags or "u" in joined_flags:
        for name in names:
            switch(script, name, place, on="s" in joined_flags)
        return 0
    return _unknown(script, words, place)


def _source(script: ShellScript, words: Words, place: Piece) -> Status:
    if not words:
        return 2
    path = str(words[0])
    file = script.file(path) if _names_a_file(words[0]) else None
    if file is None:
        script.state.missing = (*script.state.missing, path)
        return f"{path}, which {script.where(place)} reads, was not sent"
    return functions.source(script, Source.of_script(file.content, file.path), words[1:])


def _names_a_file(text: Text) -> bool:
    """Whether the last part of a path is known; where the directory is not, it names the file."""
    known = text.pieces[-1].unknown is None
    return text.unknown is None or (known and "/" in text.pieces[-1].text)


def _eval(script: ShellScript, words: Words, place: Piece) -> Status:
    if not words:
        return 0
    text = joined(words, Text.at(place, " "))
    if text.unknown is not None and text.pieces[0].unknown is not None:
        script.state.missing = (*script.state.missing, f"what {script.where(place)} evaluates")
    status = functions.evaluate(script, text)
    if text.unknown is not None:
        return f"what is evaluated at {script.where(place)} is known only when it runs"
    return status


def _let(script: ShellScript, words: Words, place: Piece) -> Status:
    value = 0
    for index, text in enumerate(words, 1):
        try:
            value = script.expander().answered(text, place)
        except BadExpressionError:
            return 1
        except NotKnownError as why:
            for each in words[index:]:
                script.forget(arithmetic.assigned(str(each)), place, str(why))
            return str(why)
    return 2 if not words else int(value == 0)


def _test(script: ShellScript, words: Words, _place: Piece) -> Status:
    try:
        return int(not conditions.words_hold(words, script.state))
    except conditions.MistakenError:
        return 2
    except NotKnownError as why:
        return str(why)


def _bracket(script: ShellScript, words: Words, place: Piece) -> Status:
    if not words or str(words[-1]) != "]":
        return 2
    return _test(script, words[:-1], place)


def _unset(script: ShellScript, words: Words, place: Piece) -> Status:
    """Of a function that may be gone it is not known what a call of it is."""
    kind, status = "", 0
    for text in words:
        name = str(text)
        if text.unknown is not None:
            script.not_followed(place, "unset of what is not known")
        if name in ("-v", "-f", "-n"):
            kind = name
        elif found := _ITEM.fullmatch(name):
            _unset_item(script, found[1], found[2], place)
        elif kind != "-f" and (kind == "-v" or name in script.state.variables):
            status = max(status, _unset_variable(script, name, place))
        elif name in script.state.functions and kind != "-v":
            if script.loosely:
                script.state.functions[name] = Function(None, place)
            else:
                script.state.functions.pop(name)
        elif kind != "-f":
            _unset_variable(script, name, place)
    return status


def _unset_variable(script: ShellScript, name: str, place: Piece) -> int:
    state = script.state
    variable = state.variables.get(name)
    if variable is not None and variable.readonly:
        return 1
    if variable is not None and variable.reference:
        script.not_followed(place, "unset of a name that stands for another")
    if script.loosely:
        script.forget([name], place, "")
        return 0
    for frame in reversed(state.frames[:-1]):
        if name in frame and name not in state.frames[-1]:
            state.restore(name, frame.pop(name))
            return 0
    state.drop(name)
    return 0


def _unset_item(script: ShellScript, name: str, index: str, place: Piece) -> None:
    variable = script.state.variables.get(name, Variable(None))
    value = variable.value
    if not isinstance(value, Array) or script.loosely:
        script.forget([name], place, "an item of it is unset")
        return
    if index in ("@", "*"):
        script.not_followed(place, "unset of all items")
    key = _index(script, name, index, place)
    if key.startswith("-"):
        key = str(max(map(int, value.items), default=-1) + 1 + int(key))
    value.item(key)
    items = {each: item for each, item in value.items.items() if each != key}
    script.state.variables[name] = variable._replace(value=Array(items, value.keyed))


def _trap(script: ShellScript, words: Words, place: Piece) -> Status:
    given = [str(text) for text in words]
    if given and given[0] == "--":
        words, given = words[1:], given[1:]
    if not given or given[0] in ("-p", "-l"):
        return _unknown(script, words, place)
    resets = len(given) == 1 or given[0] == "-"
    signals = given if len(given) == 1 else given[1:]
    for signal in signals:
        name = signal.upper().removeprefix("SIG")
        name = "EXIT" if name == "0" else name
        if name in ("DEBUG", "RETURN") and not resets and given[0]:
            script.not_followed(place, f"a trap on {name}")
        if script.loosely and name in ("EXIT", "ERR"):
            script.not_followed(place, f"a trap on {name} that is set in a way that is not known")
        script.state.traps.pop(name, None)
        if not resets and given[0] and name in ("EXIT", "ERR"):
            script.state.traps[name] = words[0]
    return 0


def _cd(script: ShellScript, words: Words, place: Piece) -> Status:
    if any(str(text) == "-" for text in words):
        script.emit(Text.at(place, "$(...)", "which folder it is is known only when it runs"))
    return 0


def _exec(script: ShellScript, words: Words, place: Piece) -> Status:
    words = list(words)
    while words and str(words[0]) in ("-c", "-l", "-a", "--"):
        del words[: 2 if str(words[0]) == "-a" else 1]
    if not words:
        return 0
    if not script.loosely:
        script.state.traps.pop("EXIT", None)
    status = script.start(words, place)
    script.note_end(place, "the script ends here with what it starts")
    script.leave(Jump.EXIT, place, status)
    return status


def _command(script: ShellScript, words: Words, place: Piece) -> Status:
    words = list(words)
    while words and str(words[0]) in ("-p", "--"):
        del words[0]
    if not words:
        return 0
    if str(words[0]).startswith("-"):
        return _unknown(script, words, place)
    return script.invoke(words, place, calls=False)


def _builtin(script: ShellScript, words: Words, place: Piece) -> Status:
    if not words:
        return 0
    if str(words[0]) not in BUILTINS:
        return 1
    return script.invoke(words, place, calls=False)


def _wait(script: ShellScript, words: Words, place: Piece) -> Status:
    return 0 if not words else _unknown(script, words, place)


def _alias(_script: ShellScript, _words: Words, _place: Piece) -> Status:
    return 0


def _kill(script: ShellScript, words: Words, place: Piece) -> Status:
    script.note_end(place, "the script may be killed here")
    return _unknown(script, words, place)


BUILTINS: Mapping[str, Callable[[ShellScript, Words, Piece], Status]] = {
    ".": _source,
    ":": _true,
    "[": _bracket,
    "alias": _alias,
    "bind": _unknown,
    "break": _break,
    "builtin": _builtin,
    "caller": _unknown,
    "cd": _cd,
    "command": _command,
    "compgen": _unknown,
    "complete": _true,
    "continue": _continue,
    "dirs": _unknown,
    "disown": _true,
    "echo": _echo,
    "enable": _unknown,
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "false": _false,
    "getopts": reading.getopts,
    "hash": _unknown,
    "history": _unknown,
    "jobs": _unknown,
    "kill": _kill,
    "let": _let,
    "mapfile": reading.mapfile,
    "popd": _cd,
    "printf": _printf,
    "pushd": _cd,
    "pwd": _unknown,
    "read": reading.read,
    "readarray": reading.mapfile,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "source": _source,
    "test": _test,
    "times": _unknown,
    "trap": _trap,
    "true": _true,
    "type": _unknown,
    "ulimit": _true,
    "umask": _true,
    "unalias": _true,
    "unset": _unset,
    "wait": _wait,
}
