"""`trainfit fit-check`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import ValidationError

from trainfit.cli.entries import UnreadFile, read_entries
from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.flags import takes_flags_over_files
from trainfit.cli.gate.asking import Ask, asking_here, asking_service
from trainfit.cli.gate.baseline import read_baseline
from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.document import document
from trainfit.cli.gate.github import append_summary, workflow_commands
from trainfit.cli.gate.junit import junit
from trainfit.cli.gate.markdown import markdown
from trainfit.cli.gate.sarif import sarif
from trainfit.cli.gate.table import print_table
from trainfit.cli.job_files import JobEntry, readable
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions, on_card
from trainfit.cli.lookup import looking_up
from trainfit.cli.service import SERVER
from trainfit.documents.document import Document, FileError
from trainfit.questions.kinds import INVALID_JSON
from trainfit.questions.problems import problem
from trainfit.specs.model import HF_ID
from trainfit.specs.policy import Override

Format = Literal["table", "json", "github", "junit", "markdown", "sarif"]

Reports = Mapping[str, Callable[[Sequence[CheckedJob], Gate], str]]

REPORTS: Reports = {
    "json": document,
    "github": workflow_commands,
    "junit": junit,
    "markdown": markdown,
    "sarif": sarif,
}
"""What makes each format but the table, which is printed as it is made."""


def _about(text: str, **options: Any) -> Parameter:
    return Parameter(help=text, show_default=False, negative=(), **options)


FILES = _about(
    "Jobs in JSON, YAML or TOML; a file may hold several. Or launch files: scripts, and what they "
    "read."
)
GPU = _about("Check every job on this card instead of its own. May be repeated.")
FAIL_ON = _about("does-not-fit unless given; tight fails on what may fit and may not, too.")
ON_ERROR = _about("Whether the gate opens where nobody could answer. Unset: fail.")
ONLINE = _about("Look up models on the Hugging Face Hub, too, not in caches and the package only.")
FORMAT = _about("table unless given; github also adds to the summary of the step.")
OUTPUT = _about("Write the format to this file, and print the table.")
REPORT = _about(
    "Write one more format to a file: sarif=fit.sarif. May be repeated.", name="--report"
)
BASELINE = _about(
    "What --format json wrote before a change: markdown tells what came to something else since."
)
RATIO = _about("Share of the usable memory to stay free.")
BYTES = _about("Bytes to stay free; of both headrooms the larger one holds.")
ALLOW = _about("Let tight or unknown pass, and say why: tight=REASON.", name="--allow")
SUGGEST = Parameter(help="Look for changes that would help.", show_default=False)


@takes_flags_over_files
def fit_check(
    files: Annotated[list[Path], FILES],
    /,
    *,
    gpu: Annotated[list[str] | None, GPU] = None,
    fail_on: Annotated[Literal["does-not-fit", "tight"], FAIL_ON] = "does-not-fit",
    on_error: Annotated[Literal["pass", "fail"], ON_ERROR] = "fail",
    server: Annotated[str | None, SERVER] = None,
    online: Annotated[bool, ONLINE] = False,
    format: Annotated[Format, FORMAT] = "table",
    output: Annotated[Path | None, OUTPUT] = None,
    report: Annotated[list[str] | None, REPORT] = None,
    baseline: Annotated[Path | None, BASELINE] = None,
    headroom_ratio: Annotated[float | None, RATIO] = None,
    headroom_bytes: Annotated[int | None, BYTES] = None,
    allow: Annotated[list[str] | None, ALLOW] = None,
    suggest: Annotated[bool | None, SUGGEST] = None,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> int:
    """Check every job of the files on every card, tell what came of it, and return the exit code.

    A reader that leaves before the end changes nothing about the code.
    """
    if output is not None and format == "table":
        raise RefusedCommandError("trainfit: --output: goes with another --format")
    if server is not None and online:
        raise RefusedCommandError("trainfit: --online: the service at --server looks up by itself")
    files_of = dict(map(_report, report or ()))
    formats: Reports = REPORTS
    if baseline is not None:
        if "markdown" not in {format, *files_of.values()}:
            raise RefusedCommandError("trainfit: --baseline: goes with the format markdown")
        formats = {**REPORTS, "markdown": partial(markdown, baseline=read_baseline(baseline))}
    headroom = {"headroom_ratio": headroom_ratio, "headroom_bytes": headroom_bytes}
    given = {name: value for name, value in headroom.items() if value is not None}
    policy = {**given, **({"allow": [_override(each) for each in allow]} if allow else {})}
    gate = Gate(fail_on_tight=fail_on == "tight", fail_on_error=on_error == "fail")
    with looking_up(online=online) as look_up:
        ask = asking_here(look_up) if server is None else asking_service(server)
        cases = list(_cases(files, gpu, policy, suggest, ask, launch, flags))
    with suppress(BrokenPipeError):
        for path, each in files_of.items():
            _write("--report", path, formats[each](cases, gate))
        _tell(format, formats.get(format), output, cases, gate)
    return gate.exit_code(cases)


def _cases(
    files: Sequence[Path],
    gpus: Sequence[str] | None,
    policy: Mapping[str, Any],
    suggest: bool | None,
    ask: Ask,
    launch: LaunchOptions,
    flags: Mapping[str, Any],
) -> Iterator[CheckedJob]:
    for entry in read_entries(files, launch, flags):
        if isinstance(entry, UnreadFile):
            yield _unreadable(entry.path, entry.error)
            continue
        for gpu in gpus or (None,):
            request = _request(entry.job, gpu, policy, suggest)
            yield CheckedJob(entry, _shown(request), ask(request))


def _request(
    job: Mapping[str, Any], gpu: str | None, policy: Mapping[str, Any], suggest: bool | None
) -> dict[str, Any]:
    """The job with what the command line says in the place of what the file says."""
    request = dict(job) if gpu is None else on_card(job, gpu)
    if suggest is not None:
        request["suggest"] = suggest
    own = request.get("policy", {})
    if policy and isinstance(own, dict):  # of anything else validation tells what is wrong
        request["policy"] = {**own, **policy}
    return request


def _unreadable(path: Path, error: FileError) -> CheckedJob:
    named_as_file = path.suffix[1:].isalpha()
    if not path.exists() and not named_as_file and re.fullmatch(HF_ID, str(path)):
        error = FileError(f"{error}; of a model by its id, use trainfit estimate {path} --gpu ...")
    nothing = Document(None, {"": error.line})
    entry = JobEntry(path, readable(path.name), {}, nothing, "")
    return CheckedJob(entry, "any GPU", problem(INVALID_JSON, str(error)))


def _shown(request: Mapping[str, Any]) -> str:
    """What to call the card that a job, or a launch, names."""
    launch = request.get("launch")
    gpu = (launch if isinstance(launch, dict) else request).get("gpu")
    if isinstance(gpu, dict):
        gpu = gpu.get("name", "custom")
    return gpu if isinstance(gpu, str) else "no GPU"


def _override(text: str) -> dict[str, str]:
    verdict, _, reason = text.partition("=")
    try:
        Override.model_validate({"verdict": verdict, "reason": reason})
    except ValidationError:
        words = "must be tight=REASON or unknown=REASON, of at most 500 characters"
        raise RefusedCommandError(f"trainfit: --allow: {words}") from None
    return {"verdict": verdict, "reason": reason}


def _report(text: str) -> tuple[Path, str]:
    """The file and the format of a report."""
    format, _, path = text.partition("=")
    if format not in REPORTS or not path:
        words = f"must be FORMAT=FILE, with a format of {', '.join(REPORTS)}"
        raise RefusedCommandError(f"trainfit: --report: {words}")
    return Path(path), format


def _tell(
    format: Format,
    report: Callable[[Sequence[CheckedJob], Gate], str] | None,
    output: Path | None,
    cases: Sequence[CheckedJob],
    gate: Gate,
) -> None:
    """Print the report; or write it, and print the table."""
    if format == "github":
        _sum_up(cases, gate)
    if report is None:
        print_table(cases, gate)
    elif output is not None:
        _write("--output", output, report(cases, gate))
        print_table(cases, gate)
    else:
        sys.stdout.write(f"{report(cases, gate)}\n")


def _sum_up(cases: Sequence[CheckedJob], gate: Gate) -> None:
    try:
        append_summary(cases, gate)
    except OSError as error:  # the verdict counts for more than its summary
        print(f"trainfit: the summary of the step: {error.strerror}", file=sys.stderr)


def _write(flag: str, path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {flag}: {path}: {error.strerror}") from None
