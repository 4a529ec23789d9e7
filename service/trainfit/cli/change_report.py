"""What a change does to the memory of a job, in Markdown: for a pull request to show."""

from __future__ import annotations

from collections.abc import Iterator

from trainfit.cli.gate.markdown import cell
from trainfit.cli.gate.words import WORDS, wrong
from trainfit.decisions.compare import Comparison, StageComparison
from trainfit.decisions.quantities import GIB, gib, gib_range, plain
from trainfit.questions.compare import ComparedJob, SideBySide


def change_report(result: SideBySide) -> str:
    """Each job beside the baseline: a line that says it, and a row for every stage that changes."""
    others = [each for each in result.jobs if each.id != result.baseline.id]
    parts = [part for each in others for part in _told(each, result.baseline)]
    return "\n".join(["### GPU memory", "", *parts])


def _told(job: ComparedJob, baseline: ComparedJob) -> Iterator[str]:
    if job.comparison is None or baseline.comparison is None:
        errors = [each for side in (job, baseline) if side.problem for each in side.problem.errors]
        yield f"**{cell(job.id)}**: not compared: {cell('; '.join(map(wrong, errors)))}"
        yield ""
        return
    yield f"**{cell(job.id)}**: {_headline(job.comparison, baseline.comparison)}"
    yield ""
    changed = [each for each in job.comparison.stages if each.difference_bytes != 0]
    if changed:
        yield "| stage | change | most of it | needs (GiB) |"
        yield "| ---: | ---: | --- | --- |"
        yield from map(_row, changed)
        yield ""


def _headline(after: Comparison, before: Comparison) -> str:
    """This change, where it is greatest, and what becomes of the verdict."""
    beside = [each for each in after.stages if each.difference_bytes is not None]
    most = max(beside, key=lambda each: abs(each.difference_bytes or 0), default=None)
    if len(after.stages) != len(before.stages):
        said = f"{len(before.stages)} stages become {len(after.stages)}"
    elif most is None or not most.difference_bytes:
        said = "this change: no other memory"
    else:
        said = f"this change: {_change(most.difference_bytes)} GiB at stage {most.pp_rank}"
    if after.verdict is None or before.verdict is None:
        return said
    old, new = WORDS[before.verdict], WORDS[after.verdict]
    return f"{said}; {new}" if old == new else f"{said}; {old} becomes {new}"


def _row(stage: StageComparison) -> str:
    parts = [(each.difference_bytes or 0, each.name) for each in stage.components]
    size, name = max(parts, key=lambda each: abs(each[0]))
    most = f"{plain(name)} {_change(size)}" if size else ""
    change = "" if stage.difference_bytes is None else _change(stage.difference_bytes)
    needs = f"{gib(stage.device_bytes.expected)} ({gib_range(stage.device_bytes)})"
    return f"| {stage.pp_rank} | {change} | {most} | {needs} |"


def _change(nbytes: int) -> str:
    return f"{nbytes / GIB:+.1f}"
