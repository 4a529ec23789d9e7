"""A decision in words, the same at a terminal, in CI and in front of a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainfit.decisions.quantities import GIB
from trainfit.decisions.suggestions import Suggestion
from trainfit.resolve.findings import Change

VERDICTS: Mapping[str, str] = {
    "fits": "fits",
    "tight": "tight",
    "does_not_fit": "does not fit",
    "unknown": "unknown",
}


def suggested(suggestion: Suggestion, said: str | None = None) -> str:
    """What to change, what it saves, what it leads to and what it costs, in time too. `said` are
    the words for the change; unset: those of its pointers.
    """
    saved = f"{suggestion.saves_bytes / GIB:.1f} GiB"
    then, ratio = VERDICTS[suggestion.verdict], suggestion.gpu_time_ratio
    longer = 0 if ratio is None else round(100 * (ratio - 1))
    timed = ""
    if longer:
        timed = f"; about {abs(longer)}% {'more' if longer > 0 else 'less'} GPU time a token"
    change = changes(suggestion.patch) if said is None else said
    return f"{change}: saves {saved}, then {then}; {suggestion.cost}{timed}"


def changes(patch: Iterable[Change]) -> str:
    """set /a to 1, /b to 2, remove /c"""
    said: list[str] = []
    for change in patch:
        if change.op == "remove":
            said.append(f"remove {change.path}")
            continue
        for pointer, value in _leaves(change.path, change.value):
            verb = "" if said and not said[-1].startswith("remove") else "set "
            said.append(f"{verb}{pointer} to {value}")
    return ", ".join(said)


def _leaves(pointer: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(f"{pointer}/{name}", inner)
    else:
        yield pointer, value if isinstance(value, str) else json.dumps(value)
