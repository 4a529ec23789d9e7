"""Problems in the words of a command line: JSON Pointers become the flags that were typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.flags import Flag, flag_at, flags
from trainfit.launch.missing import IN_ENV, IN_OVERRIDES, SCRIPT_ARGUMENTS
from trainfit.questions.launches import LAUNCH
from trainfit.questions.problems import Problem
from trainfit.questions.wire import to_json
from trainfit.resolve.findings import Change, Finding

MODEL = "/model"


def refusal(problem: Problem, job: Mapping[str, Any]) -> str:
    """A line for every error of a problem, and below it the flags that would be right."""
    lines = [line for finding in problem.errors for line in _lines(finding, job)]
    return "\n".join(lines or [f"trainfit: {problem.detail}"])


def refused(problem: Problem, document: Mapping[str, Any], *, as_json: bool) -> RefusedCommandError:
    """A problem in words, or as HTTP would send it."""
    words = to_json(problem).decode() if as_json else refusal(problem, document)
    return RefusedCommandError(words)


def in_flags(message: str) -> str:
    """What is said of a launch over HTTP, in the words of a command line."""
    for pattern, words in IN_FLAGS:
        message = pattern.sub(words, message)
    return message


def as_flag(pointer: str) -> str:
    """What one types to set the field at a pointer."""
    if pointer in ("/model", "/model/hf_id", "/model/hf_config"):
        return "MODEL"
    flag = flags().get(pointer)
    return flag.names[0] if flag is not None else f"--set {pointer}"


def typed(patch: Sequence[Change]) -> str:
    """What one types to make a change: use --cp 2, leave out --tp."""
    put = [_written(each) for each in patch if each.op != "remove"]
    gone = [as_flag(each.path) for each in patch if each.op == "remove"]
    parts = [("use", put), ("leave out", gone)]
    return ", ".join(f"{verb} {' '.join(words)}" for verb, words in parts if words)


def _asked_for(found: re.Match[str]) -> str:
    typed = as_flag(found["pointer"])
    return f"{typed}=..." if typed.startswith("--set") else typed


def _named(found: re.Match[str]) -> str:
    return as_flag(found["pointer"])


IN_FLAGS: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (IN_OVERRIDES, _asked_for),
    (re.compile(r"^(?P<pointer>/\w[\w/]*) of the (?:job|overrides)(?=: )"), _named),
    (SCRIPT_ARGUMENTS, "give --argv, '' for"),
    (re.compile(r"give (it|the command) in argv"), r"give \1 as --argv"),
    (IN_ENV, r"\g<name>\g<why>; give it as --env \g<name>=..."),
    (re.compile(r"give it in env\b"), "give it as --env NAME=VALUE"),
    (re.compile(r"; send it as hf_config"), ""),
    (re.compile(r"\bposition_embedding_type\b"), "--position-embedding-type"),
)
"""What a message says of a request, and what that is at a terminal."""


def _lines(finding: Finding, job: Mapping[str, Any]) -> Iterator[str]:
    yield f"trainfit: {place(finding.pointer)}{in_flags(finding.message)}"
    if finding.suggestion:
        yield f"  {_advice(finding.suggestion, job)}"
    if finding.code == "unknown_name" and finding.pointer.startswith(MODEL):
        yield "  or give the path of its config.json in place of the id"


def place(pointer: str) -> str:
    """The flag, or else the place in a file, that a message is about."""
    if pointer.startswith(LAUNCH):
        return ""  # the message names the place
    flag = flag_at(pointer)
    if flag is not None:
        return f"{flag.names[0]}: "
    if pointer.startswith(MODEL):
        within = pointer.removeprefix(f"{MODEL}/hf_config").removeprefix(f"{MODEL}/hf_id")
        return f"MODEL {within}: " if within.strip("/") else "MODEL: "
    return f"{pointer}: " if pointer else ""


def _advice(suggestion: Sequence[Change], job: Mapping[str, Any]) -> str:
    """The changes as flags: added to the command, or in place of what it says."""
    written = " ".join(_written(change) for change in suggestion)
    removed = all(change.op == "remove" for change in suggestion)
    given = any(_given(change.path, job) for change in suggestion)
    return f"{'leave out' if removed else 'use' if given else 'add'} {written}"


def _written(change: Change) -> str:
    flag = flags().get(change.path)
    if change.op == "remove":
        return as_flag(change.path)
    if isinstance(change.value, Mapping):
        inner = (Change(change.op, f"{change.path}/{k}", v) for k, v in change.value.items())
        return " ".join(_written(each) for each in inner)
    if flag is not None:
        return flag.written(change.value)
    if change.path.startswith(MODEL):
        return str(change.value)
    value = change.value if isinstance(change.value, str) else json.dumps(change.value)
    return f"--set {change.path}={value}"


def _given(pointer: str, job: Mapping[str, Any]) -> bool:
    flag: Flag | None = flag_at(pointer)
    value: Any = job
    *parents, name = pointer.strip("/").split("/")
    for parent in parents:
        value = value.get(parent) if isinstance(value, Mapping) else None
    names = flag.spellings if flag is not None else (name,)
    return isinstance(value, Mapping) and any(each in value for each in names)
