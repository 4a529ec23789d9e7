"""What every answer can do for whoever asks in Python."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from trainfit.decisions.quantities import gib, plain
from trainfit.questions.wire import to_json

if TYPE_CHECKING:
    from trainfit.estimator.results import Estimate


class Sent:
    """An answer, a frozen dataclass, which HTTP sends as it stands."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The answer as HTTP sends it, read from its JSON."""
        document: dict[str, Any] = json.loads(to_json(self))
        return document


def html_table(caption: str, header: list[str], rows: list[list[str]]) -> str:
    """A table for a notebook; all of its text is escaped."""

    def row(tag: str, cells: list[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{row('th', header)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )


def stages_table(caption: str, estimate: Estimate) -> str:
    """A row for every pipeline rank, in GiB on each of its GPUs."""
    header = ["pipeline rank", *(plain(each.name) for each in estimate.stages[0].components)]
    rows = [
        [
            str(stage.pp_rank),
            *(gib(component.bytes) for component in stage.components),
            *(gib(size) for size in (stage.device_bytes.low, stage.device_bytes.high)),
        ]
        for stage in estimate.stages
    ]
    return html_table(f"{caption} (GiB)", [*header, "on the device, low", "high"], rows)
