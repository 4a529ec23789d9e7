"""Outcomes added up by group, and shown as a table or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from tests.accuracy.outcomes import Counts, Fit, Memory, Outcome, Speed

OVERALL = "overall"


def groups_of(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Outcomes by group, in order of first appearance, then all of them."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.group, []).append(outcome)
    return groups | {OVERALL: list(outcomes)}


def summary(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Rows, what was priced, why the others were not, and how close the figures are."""
    listed = list(outcomes)
    skipped = [outcome.reason for outcome in listed if not outcome.priced]
    figures = [outcome.figures for outcome in listed]
    return {
        "rows": len(listed),
        "priced": len(listed) - len(skipped),
        "skipped": len(skipped),
        "reasons": dict(Counter(skipped).most_common()),
        **_errors([each for each in figures if isinstance(each, Memory | Speed)]),
        **_counts([each for each in figures if isinstance(each, Counts)]),
        **_fits([each for each in figures if isinstance(each, Fit)]),
    }


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The one object that `--json` prints."""
    return {
        "groups": {name: summary(listed) for name, listed in groups_of(outcomes).items()},
        "rows": [outcome.as_json() for outcome in outcomes],
    }


def as_text(outcomes: Sequence[Outcome]) -> str:
    """A table by group, then why rows were skipped and which rows are wrong."""
    groups = groups_of(outcomes)
    summaries = {name: summary(listed) for name, listed in groups.items()}
    lines = [_table(summaries), "", *_of_runs(groups), ""]
    for name, added_up in summaries.items():
        if name != OVERALL and added_up["skipped"]:
            lines += [f"skipped in {name}:"]
            lines += [f"  {count:>4}  {reason}" for reason, count in added_up["reasons"].items()]
    lines += [line for outcome in outcomes for line in _wrong(outcome)]
    return "\n".join(lines)


RUNS = "runs-"
"""With what the groups of runs begin whose memory is not known, but that they ran, or did not."""
FIELD = "a job has no field for "


def _of_runs(groups: dict[str, list[Outcome]]) -> list[str]:
    """How many of the published runs that say what was run are priced, with which verdict where
    they ran, and what keeps the others from it.
    """
    runs = [each for name, listed in groups.items() if name.startswith(RUNS) for each in listed]
    stated = [each for each in runs if each.stated]
    if not stated:
        return []
    fits = [each.figures for each in stated if isinstance(each.figures, Fit)]
    ran = Counter(each.verdict for each in fits if each.fits)
    why = Counter(
        word
        for each in stated
        if not each.priced
        for word in (each.reason or "").removeprefix(FIELD).split(", ")
    )
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in ran.most_common())
    return [
        f"runs that say what was run: {len(stated)} of {len(runs)}; priced {len(fits)} "
        f"({len(fits) / len(stated):.1%}); of those that ran: {verdicts}",
        *[f"  {count:>4}  {reason}" for reason, count in why.most_common()],
    ]


def _errors(figures: list[Memory | Speed]) -> dict[str, Any]:
    if not figures:
        return {}
    errors = [abs(each.error_ratio) for each in figures]
    return {
        "median_error_ratio": median(errors),
        "worst_error_ratio": max(errors),
        "inside_ratio": sum(each.inside for each in figures) / len(figures),
    }


def _counts(figures: list[Counts]) -> dict[str, Any]:
    if not figures:
        return {}
    exact = sum(each.exact for each in figures)
    return {"exact": exact, "differing": len(figures) - exact}


def _fits(figures: list[Fit]) -> dict[str, Any]:
    if not figures:
        return {}
    verdicts = Counter(each.verdict for each in figures)
    return {"verdicts": dict(verdicts), "contradictions": sum(f.contradicts for f in figures)}


COLUMNS = {
    "rows": "rows",
    "priced": "priced",
    "skipped": "skipped",
    "median_error_ratio": "median",
    "worst_error_ratio": "worst",
    "inside_ratio": "inside",
    "exact": "exact",
    "differing": "differing",
    "contradictions": "contradicted",
}


def _table(summaries: dict[str, dict[str, Any]]) -> str:
    head = ["group", *COLUMNS.values()]
    body = [
        [name, *(_cell(column, added_up.get(column)) for column in COLUMNS)]
        for name, added_up in summaries.items()
    ]
    widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *body)
    )


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return ""
    if column == "inside_ratio":
        return f"{value:.0%}"
    return f"{value:.2%}" if column.endswith("_ratio") else str(value)


def _wrong(outcome: Outcome) -> list[str]:
    """Counts that differ and verdicts that what happened contradicts."""
    match outcome.figures:
        case Counts(exact=False, differences=differences):
            shown = ", ".join(
                f"{name} {each['counted']} for {each['expected']}"
                for name, each in list(differences.items())[:4]
            )
            more = f" and {len(differences) - 4} more" if len(differences) > 4 else ""
            return [f"differs: {outcome.id}: {shown}{more}"]
        case Fit(contradicts=True) as fit:
            return [f"contradicted: {outcome.id}: ran {fit.fits}, verdict {fit.verdict}"]
        case _:
            return []
