"""Commands of the shell itself that change its variables or where it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trainfit.launch.commands.shell import arithmetic, conditions
from trainfit.launch.commands.shell.flow import Status, Way
from trainfit.launch.commands.shell.source import Source
from trainfit.launch.commands.shell.text import NotKnownError, Text
from trainfit.launch.commands.shell.words import joined

if TYPE_CHECKING:
    from tree_sitter import Node

    from trainfit.launch.commands.shell.script import Script

SUCCEEDING = frozenset(
    (
        *("cd", "chmod", "cp", "date", "echo", "export", "ln", "ls", "mkdir", "module"),
        *("mv", "popd", "printf", "pushd", "pwd", "rm", "sleep", "trap", "ulimit", "umask"),
    )
)
"""Commands that prepare a run, which comes about only where they succeed."""


def _true(_script: Script, _words: Sequence[Text], _node: Node) -> Status:
    return True


def _false(_script: Script, _words: Sequence[Text], _node: Node) -> Status:
    return False


def _exit(script: Script, _words: Sequence[Text], node: Node) -> Status:
    script.note_end(node, "the script may end here, before it trains")
    return _leave(script, Way.EXIT)


def _return(script: Script, _words: Sequence[Text], _node: Node) -> Status:
    return _leave(script, Way.RETURN)


def _break(script: Script, _words: Sequence[Text], _node: Node) -> Status:
    return _leave(script, Way.BREAK)


def _continue(script: Script, _words: Sequence[Text], _node: Node) -> Status:
    return _leave(script, Way.CONTINUE)


def _leave(script: Script, way: Way) -> Status:
    script.leave(way)
    return True


def _shift(script: Script, words: Sequence[Text], _node: Node) -> Status:
    try:
        by = arithmetic.number(words[0].known()) if words else 1
    except NotKnownError as why:
        script.state.parameters = None
        return str(why)
    if script.state.parameters is not None and by > 0:
        script.state.parameters = script.state.parameters[by:]
    return True


def _set(script: Script, words: Sequence[Text], _node: Node) -> Status:
    """Options of the shell, and its parameters behind --."""
    texts = [str(text) for text in words]
    if "--" in texts:
        script.state.parameters = tuple(words[texts.index("--") + 1 :])
    return True


def _source(script: Script, words: Sequence[Text], _node: Node) -> Status:
    if not words:
        return False
    path = str(words[0])
    file = script.file(path)
    if file is None:
        script.state.missing = (*script.state.missing, path)
        return True
    script.run(Source.of_script(file.content, file.path))
    return True


def _eval(script: Script, words: Sequence[Text], node: Node) -> Status:
    if words:
        place = words[0].word()
        script.include(Source.of(joined(words, Text.of(" ", place.file, place.line))))
    return f"what is evaluated at {script.place(node)} is known only when it runs"


def _read(script: Script, words: Sequence[Text], node: Node) -> Status:
    """Sets the variables that it names to what it reads."""
    why = f"what is read at {script.place(node)} is known only when it runs"
    script.forget({str(text): None for text in words if str(text).isidentifier()}, node, why)
    return why


def _let(script: Script, words: Sequence[Text], node: Node) -> Status:
    names = {str(text).partition("=")[0].rstrip("+-*/%"): None for text in words}
    script.forget(names, node, f"let at {script.place(node)} is not read; write $(( ))")
    return True


def _test(_script: Script, words: Sequence[Text], _node: Node) -> Status:
    try:
        return conditions.words_hold(words)
    except NotKnownError as why:
        return str(why)


BUILTINS: Mapping[str, Callable[[Script, Sequence[Text], Node], Status]] = {
    ".": _source,
    ":": _true,
    "break": _break,
    "continue": _continue,
    "eval": _eval,
    "exit": _exit,
    "false": _false,
    "getopts": _read,
    "let": _let,
    "mapfile": _read,
    "read": _read,
    "readarray": _read,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "source": _source,
    "test": _test,
    "true": _true,
}
