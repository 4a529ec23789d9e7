"""Tables and listings in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> str:
    """A table whose last `numbers` columns are aligned to the right."""
    words = len(heads) - numbers
    rule = ["---"] * words + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *map(_cells, rows)))


def _cells(row: Sequence[str]) -> list[str]:
    return [cell.replace("|", "\\|").replace("\n", " ") for cell in row]


def listing(text: str, language: str = "") -> str:
    """A block of code."""
    lines = text.strip("\n")
    return f"```{language}\n{lines}\n```"


def code(text: object) -> str:
    return f"`{text}`"
