"""Markdown for a pull request to show: what came of every job, or what changed since its base."""

from __future__ import annotations

from collections.abc import Sequence

from trainfit.cli.gate.baseline import Baseline, Was
from trainfit.cli.gate.cases import CheckedJob, Gate
from trainfit.cli.gate.words import WORDS, advice, notes
from trainfit.decisions.quantities import GIB, gib_range
from trainfit.estimator.results import Interval
from trainfit.questions.fit_check import FitCheckAnswer

MAX_COMMENT_BYTES = 65_000
"""GitHub refuses a comment of more than 65,536 characters; a part of it is the poster's own."""

HEADING = "### GPU memory\n\n"


def markdown(cases: Sequence[CheckedJob], gate: Gate, baseline: Baseline | None = None) -> str:
    """What changed since the baseline; without one, what there is."""
    if baseline is None:
        return summary(cases, gate, MAX_COMMENT_BYTES).rstrip()
    return _difference(cases, gate, baseline).rstrip()


def summary(cases: Sequence[CheckedJob], gate: Gate, max_bytes: int) -> str:
    """A row for each job and card, with why and what would help."""
    head = "| job | GPU | verdict | why | what would help |\n| --- | --- | --- | --- | --- |\n"
    rows = [_row(*_about(case, gate), *_explained(case)) for case in cases]
    return f"{_cut(HEADING + head, rows, max_bytes)}\n"


def _difference(cases: Sequence[CheckedJob], gate: Gate, baseline: Baseline) -> str:
    """A row for each job that changed, or that closes the gate; the others are counted."""
    paired, gone = baseline.paired(cases)
    shown = [(case, was) for case, was in paired if _tells(case, was, gate)]
    changed = sum(_changed(case, was) for case, was in paired) + len(gone)
    opening = (
        f"{HEADING}{changed} of {len(paired) + len(gone)} checks changed since the baseline.\n\n"
    )
    head = (
        "| job | GPU | verdict | needs (GiB) | change (GiB) | why | what would help |\n"
        "| --- | --- | --- | --- | ---: | --- | --- |\n"
    )
    rows = [_compared(case, was, gate) for case, was in shown]
    rows += [_row(f"{was.name}\n{was.path}", was.gpu, "gone", *[""] * 4) for was in gone]
    quiet = len(paired) - len(shown)
    closing = f"\n{quiet} more fit as before.\n" if quiet else ""
    table = _cut(head, rows, MAX_COMMENT_BYTES - _size(opening + closing)) if rows else ""
    return f"{opening}{table}{closing}"


def _tells(case: CheckedJob, was: Was | None, gate: Gate) -> bool:
    return gate.fails(case) or case.outcome != "fits" or _changed(case, was)


def _changed(case: CheckedJob, was: Was | None) -> bool:
    return (
        was is None
        or (was.outcome, was.gpu) != (case.outcome, case.gpu)
        or was.needs != _needs(case)
    )


def _compared(case: CheckedJob, was: Was | None, gate: Gate) -> str:
    job, gpu, verdict = _about(case, gate)
    now = _needs(case)
    change = ""
    if was is None:
        verdict = f"{verdict} (new)"
    else:
        gpu = gpu if was.gpu == case.gpu else f"{was.gpu} → {gpu}"
        if was.outcome != case.outcome:
            verdict = f"{WORDS[was.outcome]} → {verdict}"
        if was.needs is not None and now is not None:
            change = f"{(now.expected - was.needs.expected) / GIB:+.1f}"
    needs = gib_range(now) if now is not None else ""
    return _row(job, gpu, verdict, needs, change, *_explained(case))


def _needs(case: CheckedJob) -> Interval | None:
    binding = case.answer.binding if isinstance(case.answer, FitCheckAnswer) else None
    return None if binding is None else binding.device_bytes


def _about(case: CheckedJob, gate: Gate) -> tuple[str, str, str]:
    mark = "❌" if gate.fails(case) else "✅" if case.outcome == "fits" else "⚠️"
    place = f"{case.entry.name}\n{case.path}:{case.entry.line}"
    return place, case.gpu, f"{mark} {WORDS[case.outcome]}"


def _explained(case: CheckedJob) -> tuple[str, str]:
    allowed = [f"allowed: {case.allowed}"] if case.allowed else []
    why = "\n".join([*(note.text for note in notes(case)), *allowed])
    return why, "\n".join(advice(case))


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(cell, cells))} |\n"


def _cut(head: str, rows: Sequence[str], max_bytes: int) -> str:
    """A table that ends where it would be too long, and says so."""
    text, size = head, _size(head)
    for index, row in enumerate(rows):
        size += _size(row)
        if size > max_bytes - len(_left_out(len(rows))):
            return text + _left_out(len(rows) - index)
        text += row
    return text


def _left_out(count: int) -> str:
    return f"\n{count} more are not listed.\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def cell(text: str) -> str:
    """Text in which no Markdown or HTML takes effect, nobody is called and nothing is linked."""
    text = text.translate(_ENTITIES).replace("://", "&#58;//").replace("www.", "www&#46;")
    return text.replace("\r", " ").replace("\n", "<br>")


_ENTITIES = {
    **{ord(sign): f"&#{ord(sign)};" for sign in "\\`*_[]<>|&~"},
    # GitHub looks for names and numbers in what is shown, so an invisible space follows the sign.
    **{ord(sign): f"&#{ord(sign)};&#8203;" for sign in "@#"},
}
