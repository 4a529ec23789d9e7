"""The colour of what came of a job, the same wherever a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping

STYLES: Mapping[str, str] = {
    "fits": "bold green",
    "tight": "bold yellow",
    "does_not_fit": "bold red",
    "unknown": "bold magenta",
    "invalid": "bold red",
    "unavailable": "bold magenta",
}
