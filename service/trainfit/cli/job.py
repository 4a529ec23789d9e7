"""`trainfit job`: jobs out of launch files, and back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from cyclopts import App, Parameter
from rich.table import Table

from trainfit.cli.entries import Entry, UnreadFile, read_entries
from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.files import read_text
from trainfit.cli.flags import takes_flags_over_files
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions
from trainfit.cli.lookup import looking_up
from trainfit.cli.reach import reach
from trainfit.cli.refusals import as_flag, refusal
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.documents.document import FileError
from trainfit.launch.account import Account, where
from trainfit.launch.common_words import drafted
from trainfit.launch.errors import LaunchError
from trainfit.launch.reading import JobFromLaunch
from trainfit.questions.launches import RequestedJob, read_asked
from trainfit.questions.problems import Problem
from trainfit.questions.wire import to_json
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch, LaunchTarget

JOBS = Parameter(help="A job in JSON, YAML or TOML, or launch files.")
TO = Parameter(help="Whose keys.")
FILES = Parameter(help="A script that starts a training run, and what it reads.")
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")

app = App(name="job", help="Read jobs out of launch files, and write them as such.")


@app.command
@takes_flags_over_files
def from_launch(
    files: Annotated[list[Path], FILES],
    /,
    *,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Print the job that launch files describe, and what became of every key of theirs."""
    asked = _read(files, launch, flags)
    assert asked.reading is not None
    if as_json:
        print_json(to_json(JobFromLaunch.of(asked.reading)))
        return
    print(yaml.safe_dump(asked.reading.job, sort_keys=False), end="")
    print_all(labelled([("", "")]), *_tables(asked.reading.launch.account))


@app.command
def draft(
    files: Annotated[list[Path], FILES],
    /,
    *,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
) -> None:
    """Print what files of an unknown launch say in words that everyone uses, as a part of a job to
    confirm and complete. It is no job yet: whose defaults hold is not known.
    """
    try:
        texts = [(path, read_text(path)) for path in files]
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {error}") from None
    try:
        found = drafted(Launch.model_validate(launch.launch(texts)))
    except LaunchError as error:
        raise RefusedCommandError(f"trainfit: {error}") from None
    if as_json:
        print_json(to_json(found))
        return
    if found.programs:
        print(f"# it starts {', '.join(found.programs)}, of which only these words are read")
    print(yaml.safe_dump(found.job, sort_keys=False), end="")
    rows = table(["said", "value", "may be", "in the draft"])
    for each in found.said:
        place = where(each.file, each.line, each.key)
        rows.add_row(place, str(each.value), each.pointer, "yes" if each.used else "no")
    print_all(labelled([("", "")]), rows)


@app.command
@takes_flags_over_files
def convert(
    files: Annotated[list[Path], JOBS],
    /,
    *,
    to: Annotated[LaunchTarget, TO],
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Print a job in the keys of its framework: arguments to paste, or files.

    What those keys cannot say is refused by name; the number of GPUs is the launcher's to say.
    """
    from trainfit.questions.convert import converted

    asked = _read(files, launch, flags)
    with looking_up(online=True) as look_up:
        find = look_up([asked.job.model])
    result = asked.answered(lambda job, _: converted(job, to, find))
    if isinstance(result, Problem):
        raise RefusedCommandError(refusal(result, {}))
    if as_json:
        print_json(to_json(result))
        return
    for name, value in result.environment.items():
        print(f"export {name}={value}")
    for file in result.files:
        print(f"# {file.path}\n{file.content}")
    if not result.files:
        print(shlex.join(result.arguments).replace(" --", " \\\n  --"))


def _read(files: list[Path], options: LaunchOptions, given: Mapping[str, Any]) -> RequestedJob[Job]:
    """The one job of the files."""
    entries: list[Entry] = []
    for each in read_entries(files, options, given):
        if isinstance(each, UnreadFile):
            raise RefusedCommandError(f"trainfit: {each.path}:{each.error.line}: {each.error}")
        entries.append(each)
    if len(entries) != 1:
        raise RefusedCommandError(f"trainfit: the files are {len(entries)} jobs or launches")
    asked = read_asked(entries[0].job, Job)
    if isinstance(asked, Problem):
        raise RefusedCommandError(refusal(asked, entries[0].job))
    return asked


def _tables(account: Account) -> Iterator[Table]:
    """A row for every key, what is not modelled first."""
    if account.unsupported:
        rows = table(["not modelled", "value", "why"])
        for lost in account.unsupported:
            rows.add_row(lost.where, str(lost.value), lost.why)
        yield rows
    if account.bounded:
        rows = table(["bounded", "value", "the peak, at most", "why"])
        for key in account.bounded:
            rows.add_row(key.where, str(key.value), reach(key), key.why)
        yield rows
    rows = table(["decides", "value", "became"])
    for known in account.recognised:
        became = ", ".join(f"{each.pointer} {each.value}" for each in known.became)
        rows.add_row(known.where, str(known.value), became)
    yield rows
    if account.replaced:
        rows = table(["replaced", "value", "by"])
        for replaced in account.replaced:
            rows.add_row(replaced.pointer, str(replaced.value), as_flag(replaced.by))
        yield rows
    rows = table(["default", "value", "whose"])
    for default in account.defaulted:
        rows.add_row(default.pointer, str(default.value), default.whose)
    yield rows
    others = ", ".join(each.key for each in account.irrelevant)
    yield labelled([("Does not matter", others)])
