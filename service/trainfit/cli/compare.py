"""`trainfit compare`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from trainfit.cli.change_report import change_report
from trainfit.cli.colours import STYLES
from trainfit.cli.entries import Entry, UnreadFile, read_entries
from trainfit.cli.errors import REFUSED, RefusedCommandError
from trainfit.cli.flags import takes_flags_over_files
from trainfit.cli.gate.words import WORDS, wrong
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions, on_card
from trainfit.cli.lookup import looking_up
from trainfit.cli.refusals import refusal
from trainfit.cli.service import SERVER, UNAVAILABLE, asking, is_unanswered
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.decisions.quantities import GIB, gib, gib_range
from trainfit.estimator.results import ComponentName
from trainfit.questions.compare import ComparedJob, SideBySide, compare_jobs, read_comparison
from trainfit.questions.problems import Problem
from trainfit.questions.several import jobs_of
from trainfit.questions.wire import to_json
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest
from trainfit.specs.several import MAX_JOBS, CompareRequest, NamedJob

BESIDE_A_JOB = FitCheckRequest.model_fields.keys() - Job.model_fields.keys()
STATES: Sequence[ComponentName] = "weights", "gradients", "optimizer_states", "activations"

FILES = Parameter(
    help="Jobs in JSON, YAML or TOML; a file may hold several. Or launch files: scripts, and what "
    "they read."
)
GPU = Parameter(help="Compare every job on this card instead of its own.")
BASELINE = Parameter(help="The job that the others differ from, by its name. Unset: the first.")
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")

MARKDOWN = Parameter(
    negative=(), show_default=False, help="Print what changes, for a pull request to show."
)


@takes_flags_over_files
def compare(
    files: Annotated[list[Path], FILES],
    /,
    *,
    gpu: Annotated[str | None, GPU] = None,
    baseline: Annotated[str | None, BASELINE] = None,
    server: Annotated[str | None, SERVER] = None,
    as_json: Annotated[bool, JSON] = False,
    markdown: Annotated[bool, MARKDOWN] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> int:
    """Put the jobs of the files side by side. The exit code is 2 where one of them is refused, 5
    where a service gives no answer.
    """
    ask = _ask_here if server is None else _service(server)
    entries = _entries(files, launch, flags)
    jobs = [NamedJob.model_validate({"id": name, **job}) for name, job in _named(entries, gpu)]
    if len(jobs) > MAX_JOBS:
        raise RefusedCommandError(f"trainfit: there are {len(jobs)} jobs; at most {MAX_JOBS} go")
    if baseline is not None and baseline not in [each.id for each in jobs]:
        names = ", ".join(each.id for each in jobs)
        raise RefusedCommandError(f"trainfit: --baseline: no job has this name; there are {names}")
    request = CompareRequest(jobs=tuple(jobs), baseline=baseline)
    result = ask(request)
    if isinstance(result, Problem):
        return _unanswered(result, as_json=as_json)
    if as_json:
        print_json(to_json(result))
    elif markdown:
        print(change_report(result))
    else:
        _print(result)
    return REFUSED if any(each.problem is not None for each in result.jobs) else 0


def _ask_here(request: CompareRequest) -> SideBySide | Problem:
    with looking_up(online=True) as look_up:
        opened = read_comparison(request)
        find = look_up([each.model for each in jobs_of(opened)])
    return compare_jobs(request, opened, lambda *_: None, find=find)


def _service(server: str) -> Callable[[CompareRequest], SideBySide | Problem]:
    ask = asking(server, "compare", SideBySide)
    return lambda request: ask(request.model_dump())


def _unanswered(problem: Problem, *, as_json: bool) -> int:
    words = to_json(problem).decode() if as_json else refusal(problem, {})
    print(words, file=sys.stderr)
    return UNAVAILABLE if is_unanswered(problem) else REFUSED


def _entries(
    files: Sequence[Path], options: LaunchOptions, given: Mapping[str, Any]
) -> Iterator[Entry]:
    for entry in read_entries(files, options, given):
        if isinstance(entry, UnreadFile):
            error = entry.error
            raise RefusedCommandError(f"trainfit: {entry.path}:{error.line}: {error}")
        yield entry


def _named(entries: Iterator[Entry], gpu: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job under its name, numbered where it is not the first of that name. A policy is left
    aside: what is compared is what jobs need.
    """
    seen: set[str] = set()
    for entry in entries:
        numbered = (f"{entry.name} ({number})" for number in count(2))
        name = next(each for each in chain([entry.name], numbered) if each not in seen)
        seen.add(name)
        job = {key: part for key, part in entry.job.items() if key not in BESIDE_A_JOB}
        job = job if gpu is None else on_card(job, gpu)
        yield name, job if "launch" in job else {"job": job}


def _print(result: SideBySide) -> None:
    numbers = (
        "weights",
        "gradients",
        "optimizer states",
        "activations",
        "rest",
        "expected",
        "bounds",
    )
    least = ("needs less than", "rest", "stage", "gradients", "weights", "optimizer states")
    rows = table(
        ["job"],
        ["GPUs", "stage", *numbers, "difference"],
        expendable=[*least, "activations", "expected"],
    )
    for name in ("verdict", "needs less than"):
        rows.add_column(name, no_wrap=True)
    for each in result.jobs:
        rows.add_row(each.id, *_cells(each, result.baseline.id))
    rows.caption = (
        "GiB on each GPU of the stage that needs most, at its peak; "
        f"differences are to {result.baseline.id}"
    )
    refused = [line for each in result.jobs for line in _refused(each)]
    print_all(rows, *([labelled(refused)] if refused else []))


def _cells(job: ComparedJob, baseline: str) -> list[str | Text]:
    comparison = job.comparison
    if comparison is None:
        return [*[""] * 10, Text("refused", STYLES["invalid"])]
    binding = comparison.binding
    stage = comparison.stages[binding.pp_rank]
    sizes = {each.name: each.bytes for each in stage.components}
    difference, verdict = comparison.difference_bytes, comparison.verdict
    return [
        str(comparison.parallelism.num_gpus),
        str(binding.pp_rank),
        *(gib(sizes.pop(name)) for name in STATES),
        gib(sum(sizes.values())),
        gib(binding.device_bytes.expected),
        gib_range(binding.device_bytes),
        "" if difference is None or job.id == baseline else f"{difference / GIB:+.1f}",
        "" if verdict is None else Text(WORDS[verdict], STYLES[verdict]),
        ", ".join(comparison.dominates),
    ]


def _refused(job: ComparedJob) -> Iterator[tuple[str, str]]:
    if job.problem is not None:
        for index, finding in enumerate(job.problem.errors):
            yield "" if index else job.id, wrong(finding)
