"""Pages, and the places in them that are generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tools.docs import accuracy, estimator, fields, measurements, question, service, terminal
from tools.figures import FIGURES, IMAGES

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted((ROOT / "docs").glob("*.md")))

PLACE = re.compile(r"(?<=<!-- generated: )([a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)

BLOCKS: Mapping[str, Callable[[], str]] = {
    **question.BLOCKS,
    **terminal.BLOCKS,
    **service.BLOCKS,
    **fields.BLOCKS,
    **estimator.BLOCKS,
    **accuracy.BLOCKS,
    **measurements.BLOCKS,
}
"""What fills each place, by its name."""


def generated() -> dict[Path, str]:
    """Every page and picture as it should be."""
    pages = {page: filled(page.read_text("utf-8")) for page in PAGES}
    return pages | {IMAGES / name: draw() for name, draw in FIGURES.items()}


def filled(text: str) -> str:
    """A page with all its places filled. Raises KeyError for a place that nothing fills."""
    return PLACE.sub(lambda place: f"{place[1]}{place[2]}{_block(place[1])}\n", text)


def places(text: str) -> list[str]:
    """Names of the places of a page."""
    return [place[1] for place in PLACE.finditer(text)]


@cache
def _block(name: str) -> str:
    return BLOCKS[name]().strip("\n")
