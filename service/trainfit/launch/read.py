"""A launch -> a job and the account of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from trainfit.catalog.gpus import UnknownGpuError, find_gpu
from trainfit.launch.account import Account, Defaulted, with_irrelevant, with_unsupported
from trainfit.launch.commands.unwrap import programs_of
from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.find import (
    FoundCommand,
    SeveralRunsError,
    command_in,
    find_command,
    recognised,
)
from trainfit.launch.fork import Fork, every_way
from trainfit.launch.formats import Format
from trainfit.launch.missing import ARGUMENTS, asked_for, not_read
from trainfit.launch.open_facts import RUN, OpenFact, Values, cases_of, open_facts, run_fact
from trainfit.launch.overriding import overridden
from trainfit.launch.program import TrainingProgram
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.launch.settings import Setting
from trainfit.launch.shell.choices import Choice
from trainfit.launch.variants import differences, variants
from trainfit.specs.gpu import CustomGpu, JobGpu
from trainfit.specs.launch import Launch

ROWS = "/model/spec/vocab_size"
OTHERS = "reserved_other_bytes"
COUNTS = ("num_processes", "num_machines")
"""What accelerate's launcher is given of the number of GPUs."""


MAX_RUNS = 8
"""Runs of one script that are tried in turn."""

MAX_WAYS = 16
"""Ways through one script that are followed in turn."""


def read_launch(launch: Launch) -> LaunchReading:
    """The job of a launch; whether it is a job in all its fields is not checked here.

    A script whose arguments were not sent is read as it runs without, where that makes a job.
    Raises LaunchError where no format is recognised, or a file or a value cannot be read.
    """
    try:
        return _read(launch, find_command(launch))
    except SeveralRunsError as error:
        raise _of_each_run(launch, error) from None
    except LaunchError as error:
        alone = _without_arguments(launch, error)
        if alone is None:
            raise
        try:
            return _with_script_defaults(read_launch(alone))
        except LaunchError:
            raise error from None


def _of_each_run(launch: Launch, error: SeveralRunsError) -> LaunchError:
    """What is wrong with each run of a script, where it is the same; else that it has several, and
    what is wrong with any.
    """
    wrong: list[LaunchError] = []
    for run in error.runs[:MAX_RUNS]:
        try:
            _read(launch, FoundCommand(*run))
        except LaunchError as why:
            wrong.append(why)
    same = len({str(each) for each in wrong}) == 1 and len(wrong) == len(error.runs)
    if same:
        return wrong[0]
    complaints = dict.fromkeys(each for why in wrong for each in why.complaints)
    return SeveralRunsError(error.complaints[0].message, error.runs, tuple(complaints))


def _without_arguments(launch: Launch, error: LaunchError) -> Launch | None:
    """The launch with its script as it runs on its own, where what is wrong asks for arguments."""
    asked = any(ARGUMENTS in each.missing for each in error.complaints)
    return launch.model_copy(update={"argv": ()}) if asked and launch.argv is None else None


def _with_script_defaults(reading: LaunchReading) -> LaunchReading:
    """A launch that was read without arguments, whose account says so."""
    account = reading.launch.account
    defaulted = Defaulted(ARGUMENTS, [], "the script, as it runs without arguments")
    account = replace(account, defaulted=[defaulted, *account.defaulted])
    return replace(reading, launch=replace(reading.launch, account=account))


Outcome = LaunchReading | LaunchError


def _read(launch: Launch, found: FoundCommand) -> LaunchReading:
    """The job of a launch that starts this program: what its scripts decide by what only their run
    can know is read each way, where that is what it lacks. Raises LaunchError.
    """
    outcome = _outcome(launch, found)
    if _lacking(found, outcome) is not None:
        ways = list(islice(_each_way(launch, found, outcome), MAX_WAYS + 1))
        outcome = _whichever(ways) or outcome
    if isinstance(outcome, LaunchError):
        raise outcome
    return outcome


def _outcome(launch: Launch, found: FoundCommand) -> Outcome:
    try:
        return _read_program(launch, found.format, found.program)
    except LaunchError as error:
        return error


def _lacking(found: FoundCommand, outcome: Outcome) -> Choice | None:
    """A choice by which something is lost to the reading, and that no user can make for it: of
    several in one line the last, as what an `if` decides may leave nothing to the && in it.
    """
    if isinstance(outcome, LaunchError):
        lost = str(outcome)
    else:
        lost = "; ".join(each.why for each in outcome.unread())
    open_ = [each for each in found.choices if each.why in lost and not any(asked_for(each.why))]
    return next((each for each in open_[::-1] if each.place[:2] == open_[0].place[:2]), None)


def _each_way(launch: Launch, found: FoundCommand, outcome: Outcome) -> Iterator[Outcome]:
    """What becomes of the launch each way that it can go; nothing where nothing trains."""
    choice = _lacking(found, outcome)
    if choice is None:
        yield outcome
        return
    for way in range(choice.ways):
        decided = {**found.decided, choice.place: way}
        unwrapped = programs_of(
            launch,
            past_guards=found.past_guards,
            decided=decided,
            followings=found.followings,
        )
        if not recognised(unwrapped.programs):
            continue
        try:
            gone = command_in(unwrapped, launch, decided, past_guards=found.past_guards)
            gone = gone._replace(followings=found.followings)
        except LaunchError as error:
            yield error
        else:
            yield from _each_way(launch, gone, _outcome(launch, gone))


def _whichever(outcomes: Sequence[Outcome]) -> Outcome | None:
    """What all of these come to, with the account of each; None where they differ."""
    wrong = [each for each in outcomes if isinstance(each, LaunchError)]
    readings = [each for each in outcomes if not isinstance(each, LaunchError)]
    if len(outcomes) > MAX_WAYS or (wrong and readings):
        return None
    if wrong:
        return wrong[0] if len({str(each) for each in wrong}) == 1 else None
    if not readings or any(_is_another(each, readings[0]) for each in readings):
        return None
    first, *others = [each.launch.account for each in readings]
    account = with_irrelevant(with_unsupported(first, others), others)
    return replace(readings[0], launch=replace(readings[0].launch, account=account))


def _is_another(reading: LaunchReading, other: LaunchReading) -> bool:
    """Whether two readings differ in the job, or in what its releases make of it."""
    return (reading.job, reading.launch.variants) != (other.job, other.launch.variants)


def _read_program(launch: Launch, found: Format, program: TrainingProgram) -> LaunchReading:
    """The job of a program in this format. Raises LaunchError."""
    first, *others = every_way(lambda fork: _one_way(launch, found, program, fork))
    draft, account, job = first
    account = with_unsupported(account, [each.account for each in others])
    among = variants(job, [(each.draft.releases, each.job) for each in others])
    releases = draft.releases if among else None
    read = ReadLaunch(found.name, launch.framework_version, releases or None, among, account)
    return LaunchReading(launch, read, job, draft.origins)


def read_open(launch: Launch, error: LaunchError) -> LaunchReading | None:
    """A launch that lacks nothing but facts whose values can be tried, as it is read with the first
    that makes it whole. None where `error` says that something else is wrong, or none does.
    """
    alone = _without_arguments(launch, error)
    if alone is not None:
        try:
            read_launch(alone)
        except LaunchError as left:
            if (tried := read_open(alone, left)) is not None:
                return _with_script_defaults(tried)
    facts = tuple(open_facts(error))
    if isinstance(error, SeveralRunsError) and len(error.runs) <= MAX_RUNS:
        facts = (run_fact(str(error), len(error.runs)),)
    first = next(read_cases(launch, facts), None) if facts else None
    return None if first is None else replace(first[1], left_open=launch, open=facts)


def read_cases(
    launch: Launch, facts: Sequence[OpenFact], needless: Callable[[Values], bool] = lambda _: False
) -> Iterator[tuple[Values, LaunchReading]]:
    """A launch with each value of the facts that it leaves open, where it can be read, but those
    that are `needless`.
    """
    if RUN in [fact.pointer for fact in facts]:
        yield from _read_runs(launch)
        return
    try:
        found = find_command(launch)
    except SeveralRunsError:
        return
    for values, given in cases_of(launch, facts):
        if needless(values):
            continue
        try:
            yield values, _read(given, found)
        except LaunchError:
            continue


def _read_runs(launch: Launch) -> Iterator[tuple[Values, LaunchReading]]:
    """Each run of a launch that starts several, by its number. None where any cannot be read, as
    what the others need says nothing of it.
    """
    try:
        find_command(launch)
    except SeveralRunsError as error:
        try:
            read = [_read(launch, FoundCommand(*run)) for run in error.runs]
        except LaunchError:
            return
        yield from (({RUN: number}, each) for number, each in enumerate(read, 1))


class Read(NamedTuple):
    """A launch as it was read in one of the ways that it leaves open."""

    draft: Draft
    account: Account
    job: dict[str, Any]


def _one_way(launch: Launch, found: Format, program: TrainingProgram, fork: Fork) -> Read:
    draft = Draft(launch.accept_unsupported, launch.overrides, fork)
    if draft.overridden("/parallelism/num_gpus") is not None:
        program = _without_unknown_gpus(program)
    _put_gpu(program, draft)
    found.read(program, draft, launch.framework_version)
    for setting in draft.unnamed:
        draft.leave_out(setting, _either_way(launch, found, program, draft, setting))
    for setting in program.irrelevant:
        draft.ignore(setting)
    for setting, why in program.unsupported:
        draft.leave_out(setting, why)
    _refuse_other_vocabulary(draft)
    job, taken_over = overridden(draft.job, launch.overrides)
    account = replace(draft.close(), replaced=taken_over)
    if (gpu := _gpu(launch.gpu, draft.job.get("gpu"), job.get("gpu"))) is not None:
        job["gpu"] = gpu
    return Read(draft, account, job)


def _either_way(
    launch: Launch, found: Format, program: TrainingProgram, draft: Draft, setting: Setting
) -> Effect | str:
    """What it does that a command may name this file, which nothing else does: the job is then
    another, as far as that can be read. What is bounded of that one alone is left out, in its
    direction.
    """
    other = Draft(launch.accept_unsupported, launch.overrides)
    try:
        named = replace(program, named={setting.key: setting})
        found.read(named, other, launch.framework_version)
        account = other.close()
    except LaunchError:
        return not_read(setting.key)
    within = dict(differences(draft.job, other.job))
    if any(not each.accepted for each in account.unsupported) or not within:
        return not_read(setting.key)
    draft.leave_out_as(other)
    return Effect(
        "nothing names this file: the run is the job without it, or where its command names it, "
        "one with it",
        "either",
        "the files of the launch",
        within=within,
    )


def _refuse_other_vocabulary(draft: Draft) -> None:
    """The rows of an embedding belong to a model that is set by its dimensions. Raises LaunchError
    where they are to be those of a config.json, which has its own.
    """
    rows = draft.overridden(ROWS)
    if rows is None or draft.overridden("/model/spec/num_layers") is not None:
        return
    name = draft.overridden("/model/hf_id") or draft.get("/model/hf_id")
    if name is None and draft.get("/model/hf_config") is None:
        return
    model = "the model" if name is None else str(name)
    raise LaunchError(
        Complaint(
            f"{ROWS} of the overrides: the config.json of {model} says its vocabulary; leave this "
            "out, or send that config.json with another vocab_size as /model/hf_config"
        )
    )


def _gpu(given: JobGpu | None, found: Any, merged: Any) -> Any:
    """The card that a launch is given, else what it says with overrides merged over it. Overrides
    that only tell what others hold of a card mean the one that is given or found.
    """
    if isinstance(given, CustomGpu):
        return given.model_dump(mode="json", exclude_none=True)
    name = given or found
    if isinstance(name, str) and isinstance(merged, dict) and merged.keys() == {OTHERS}:
        return {"name": name, **merged}
    return given or merged


def _put_gpu(program: TrainingProgram, draft: Draft) -> None:
    """The GPU that a scheduler is asked for, where it is one that is known by that name."""
    gpu = program.allocation.gpu
    if gpu is None:
        return
    try:
        find_gpu(str(gpu.value))
    except UnknownGpuError:
        draft.ignore(gpu)
    else:
        draft.put("/gpu", gpu.value, gpu)


def _without_unknown_gpus(program: TrainingProgram) -> TrainingProgram:
    """A program whose number of GPUs is said otherwise need not tell it."""
    counts = [each for each in program.num_gpus if each.unknown is not None]
    launcher = {
        name: each
        for name, each in program.launcher_settings.items()
        if name in COUNTS and each.unknown is not None
    }
    needless = program.num_gpus if counts else ()
    others = [each for each in launcher.values() if each not in needless]
    return replace(
        program,
        num_gpus=() if counts else program.num_gpus,
        launcher_settings={
            name: each for name, each in program.launcher_settings.items() if name not in launcher
        },
        irrelevant=(*program.irrelevant, *needless, *others),
    )
