"""Which of the programs that a launch starts is the one that trains, and in which format it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from trainfit.launch.commands.unwrap import Unwrapped, programs_of
from trainfit.launch.documents import unread
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.formats import FORMATS, Format
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.shell.builtins import ENDS
from trainfit.launch.shell.choices import Choice, Decisions
from trainfit.launch.shell.following import Followings
from trainfit.specs.launch import Launch, LaunchFormat

BESIDE_OTHERS: Sequence[LaunchFormat] = ("accelerate", "deepspeed")
"""Formats whose files are a part of a run that another file tells the rest of."""


class SeveralRunsError(LaunchError):
    """A launch starts more than one program that trains; each with its format. `wrong` is what some
    of them cannot be read for.
    """

    def __init__(
        self,
        message: str,
        runs: Sequence[tuple[Format, TrainingProgram]],
        wrong: Sequence[Complaint] = (),
    ) -> None:
        super().__init__(Complaint(message), *wrong)
        self.runs = runs


class FoundCommand(NamedTuple):
    """The program that a launch starts, and its format. `choices` are statements of scripts of
    which nothing says which way they go, `decided` those that go one way; guards that end a script
    were passed or not. `followings` are what came of its scripts.
    """

    format: Format
    program: TrainingProgram
    choices: Sequence[Choice] = ()
    decided: Decisions = MappingProxyType({})
    past_guards: bool = False
    followings: Followings | None = None


def find_command(launch: Launch) -> FoundCommand:
    """The program that trains, and its format. Where a script ends itself before it starts any, as
    something that it checks is not there, what it would start otherwise; the account says where it
    ends. Raises LaunchError.
    """
    followings = Followings()
    unwrapped = programs_of(launch, followings=followings)
    try:
        return command_in(unwrapped, launch)._replace(followings=followings)
    except LaunchError as error:
        if not any(ENDS in each.message for each in unwrapped.notes):
            raise
        try:
            beyond = programs_of(launch, past_guards=True, followings=followings)
        except LaunchError:
            raise error from None
        if not recognised(beyond.programs):
            raise error from None
    found = command_in(beyond, launch, past_guards=True)
    return found._replace(followings=followings)


def command_in(
    unwrapped: Unwrapped,
    launch: Launch,
    decided: Decisions = MappingProxyType({}),
    *,
    past_guards: bool = False,
) -> FoundCommand:
    """The one program that trains. Raises LaunchError."""
    found, program = _the_one(unwrapped, launch.format)
    ends = tuple(Setting("exit", None, each.file, each.line) for each in unwrapped.passed)
    program = replace(program, irrelevant=(*program.irrelevant, *ends))
    return FoundCommand(found, program, unwrapped.choices, decided, past_guards)


def _the_one(unwrapped: Unwrapped, wanted: LaunchFormat | None) -> tuple[Format, TrainingProgram]:
    formats = [each for each in FORMATS if wanted in (None, each.name)]
    found = recognised(unwrapped.programs, formats)
    if len(found) > 1:
        trained = ", ".join(str(program.name) for _, program in found)
        doubts = {program.doubt: None for _, program in found if program.doubt is not None}
        which = "".join(f"; which of them runs is not known: {doubt}" for doubt in doubts)
        message = f"starts more than one program that trains: {trained}{which}"
        raise SeveralRunsError(message, found)
    if found:
        _refuse_several_configs(found[0][1], formats)
        return found[0]
    if wanted is not None and len(unwrapped.programs) == 1:
        return formats[0], unwrapped.programs[0]
    names = ", ".join(dict.fromkeys(each.name for each in formats))
    started = ", ".join(dict.fromkeys(each.name for each in unwrapped.programs if each.name))
    seen = f"; it starts {started}" if started else ""
    nothing = Complaint(
        f"holds no launch that is recognised{seen}; formats that are: {names}. What it says in "
        "words that everyone uses can be drafted as a job (trainfit job draft, /v1/jobs:draft)"
    )
    raise LaunchError(nothing, *_not_read(unwrapped.programs), *unwrapped.notes)


def _not_read(programs: Sequence[TrainingProgram]) -> Iterator[Complaint]:
    """Why documents do not read: no format knows one of them."""
    files = {path: file for program in programs for path, file in program.files.items()}
    return filter(None, map(unread, files.values()))


def _refuse_several_configs(program: TrainingProgram, formats: Sequence[Format]) -> None:
    """Files alone tell of one run. Raises LaunchError where several of them could be it, or the
    same part of it, and none names another.
    """
    if program.name is not None:
        return
    of_each: dict[LaunchFormat, list[str]] = {}
    for path, file in program.files.items():
        alone = replace(program, files={path: file})
        if known := recognised([alone], formats):
            of_each.setdefault(known[0][0].name, []).append(path)
    parts = [of_each.pop(name) for name in BESIDE_OTHERS if name in of_each]
    runs = [path for paths in of_each.values() for path in paths]
    named = {path for path in program.files if _is_named(path, program)}
    unclear = [paths for paths in parts if not named.intersection(paths)]
    if len(named.intersection(runs)) != len(runs) - 1:
        unclear.append(runs)
    for paths in unclear:
        if len(paths) > 1:
            which = " or ".join(paths)
            message = f"which is meant, {which}? Send one of them, or the command that names it"
            raise LaunchError(Complaint(message, paths[-1], 1))


def _is_named(path: str, program: TrainingProgram) -> bool:
    """Whether another file has the last name of this one in it."""
    name = re.compile(rf"(?<![\w.-]){re.escape(path.rpartition('/')[2])}(?![\w.-])")
    others = (file for each, file in program.files.items() if each != path)
    return any(name.search(file.content) is not None for file in others)


def recognised(
    programs: Sequence[TrainingProgram], formats: Sequence[Format] = FORMATS
) -> list[tuple[Format, TrainingProgram]]:
    """The programs that train and their formats; the first format that knows a program counts."""
    training = [each for each in programs if not each.is_beside]
    first = ((next((f for f in formats if f.recognises(each)), None), each) for each in training)
    return [(known, program) for known, program in first if known is not None]
