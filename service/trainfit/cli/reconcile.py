"""`trainfit reconcile`: what a run took, beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.estimate import JOB, NAMED
from trainfit.cli.files import read_config
from trainfit.cli.flags import takes_job_flags
from trainfit.cli.jobs import question
from trainfit.cli.launches import NOTHING_SAID, LaunchOptions
from trainfit.cli.logs import artifact, is_log
from trainfit.cli.lookup import answered
from trainfit.cli.terminal import labelled, print_all, print_json, table
from trainfit.decisions.quantities import gib, gib_range, plain, ranges
from trainfit.decisions.reconcile.comparison import ComparedFigure, off_bytes
from trainfit.decisions.reconcile.explanations import Explanation
from trainfit.decisions.reconcile.snapshot import SnapshotMatch
from trainfit.documents.document import FileError
from trainfit.questions.reconcile import ReconcileAnswer, reconciled
from trainfit.questions.wire import to_json
from trainfit.specs.artifacts import LogFormat
from trainfit.specs.reconcile import ReconcileRequest

LOG = Parameter(
    help="What the run has printed; /dev/stdin is what is piped in. May be repeated. Unset: the "
    "files among the words that only a run can have printed."
)
SNAPSHOT = Parameter(help="What `trainfit snapshot summarize` printed of a rank.")
UNMATCHED_SHOWN = 5
UNEXPLAINED = (
    "no other micro-batch, length, layout, recomputation, kernel, loss, precision or optimizer "
    "leaves half of the difference or less: is this the job that ran?"
)
BESIDE_TENSORS = (
    "tensors are as expected: the difference lies in what the allocator caches or outside PyTorch"
)
FORMAT = Parameter(name="--log-format", help="What alone is read of logs. Unset: all formats.")
JSON = Parameter(name="--json", negative=(), show_default=False, help="Print what HTTP answers.")


@takes_job_flags
def reconcile(
    named: Annotated[list[str] | None, NAMED] = None,
    /,
    *,
    log: Annotated[list[Path] | None, LOG] = None,
    snapshot: Annotated[Path | None, SNAPSHOT] = None,
    job: Annotated[Path | None, JOB] = None,
    log_format: Annotated[LogFormat | None, FORMAT] = None,
    as_json: Annotated[bool, JSON] = False,
    launch: LaunchOptions = NOTHING_SAID,
    **flags: Any,
) -> None:
    """Put what a run took beside what was predicted of its job, and say what explains it."""
    words = list(named or ())
    printed = [] if log else [each for each in words if is_log(Path(each))]
    document = question([each for each in words if each not in printed], job, flags, launch)
    texts = [artifact(each, log_format) for each in (*(log or ()), *map(Path, printed))]
    logs = [each.model_dump(exclude_none=True) for each in texts]
    run: dict[str, Any] = {"artifacts": logs}
    if snapshot is not None:
        run["snapshot_summary"] = _summary(snapshot)
    asked = {**document, "run": run}
    _, answer = answered(asked, ReconcileRequest, reconciled, as_json=as_json)
    if as_json:
        print_json(to_json(answer))
    else:
        print_all(*_tables(answer))


def _summary(path: Path) -> Any:
    try:
        return read_config(path)
    except FileError as error:
        raise RefusedCommandError(f"trainfit: {path}: {error}") from None


def _tables(answer: ReconcileAnswer) -> Iterator[Table]:
    yield _compared(answer.comparisons)
    if answer.explanations:
        yield _explained(answer.explanations)
    if answer.snapshot is not None:
        yield _recorded(answer.snapshot)
    lines = [(plain(each.id), each.message) for each in answer.findings]
    if not answer.explanations and any(_is_off(each) for each in answer.comparisons):
        lines.append(("unexplained", _unexplained(answer.comparisons)))
    coverage = answer.coverage
    seen = f"pipeline ranks {ranges(coverage.pp_ranks)}" if coverage.pp_ranks else "none"
    if not coverage.binding_seen:
        seen += f"; not {answer.estimate.binding.pp_rank}, which needs most"
    lines.append(("ranks seen", f"{len(coverage.ranks)} of {coverage.num_gpus}: {seen}"))
    lines += [
        (f"not read: {each.source.name}:{each.source.line}", each.why) for each in answer.unread
    ]
    yield labelled(lines)


def _is_off(found: ComparedFigure) -> bool:
    return found.verdict in ("above", "below")


def _unexplained(found: Sequence[ComparedFigure]) -> str:
    """What is said where nothing explains the figures."""
    tensors = [each for each in found if each.quantity in ("resident", "allocated")]
    as_expected = any(each.verdict == "within" for each in tensors)
    return BESIDE_TENSORS if as_expected and not any(map(_is_off, tensors)) else UNEXPLAINED


def _compared(found: Sequence[ComparedFigure]) -> Table:
    rows = table(["bytes"], ["rank", "GiB", "expected", "bounds", "off"])
    for name in ("is", "where"):
        rows.add_column(name)
    for each in found:
        expected, bounds, off = "", "", ""
        if each.predicted is not None:
            expected, bounds = gib(each.predicted.expected), gib_range(each.predicted)
            missed = off_bytes(each) or 0
            if missed or not each.at_least:
                off = f"{missed / each.predicted.expected:+.1%}"
        verdict = plain(each.verdict) if each.why is None else f"not comparable: {each.why}"
        if each.at_least and each.verdict == "within":
            verdict = "agrees"
        rank = "" if each.rank is None else str(each.rank)
        at_least = ">= " * each.at_least
        where = f"{each.source.name}:{each.source.line}"
        measured = at_least + gib(each.measured_bytes)
        rows.add_row(each.quantity, rank, measured, expected, bounds, off, verdict, where)
    return rows


def _recorded(found: SnapshotMatch) -> Table:
    rows = table(["recorded at the peak"], ["GiB", "expected"])
    for each in found.attributions:
        rows.add_row(plain(each.part), gib(each.measured_bytes or 0), gib(each.predicted_bytes))
    for block in found.unmatched[:UNMATCHED_SHOWN]:
        where = ", ".join(block.stack[:2]) or plain(block.phase)
        size = f"{block.count} x {block.bytes} bytes, {where}"
        rows.add_row(f"  {size}", gib(block.count * block.bytes), "")
    return rows


def _explained(found: Sequence[Explanation]) -> Table:
    rows = table(["what would explain it"], ["GiB", "of the difference"])
    for each in found:
        against = f", but not {', '.join(each.speaks_against)}" if each.speaks_against else ""
        share = f"{1 - each.after_ratio / each.before_ratio:.0%}"
        rows.add_row(each.meaning + against, f"{each.bytes / 2**30:+.1f}", share)
    return rows
