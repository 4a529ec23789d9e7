"""What every family's launches become, where one thing in them is said otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.launch.derived.families import FAMILIES

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", FAMILIES)
def test_each_row_becomes_what_the_source_makes_of_it(name: str) -> None:
    assert FAMILIES[name].wrong() == []


def test_the_page_lists_every_program_and_what_it_is_held_to() -> None:
    page = (ROOT / "docs/launch.md").read_text("utf-8")
    section = page.partition("\n## How readers are held to programs\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)[2:]
    listed = [[cell.strip() for cell in line.split("|")] for line in lines]
    with_rows = [program for program, _, rows in listed if rows]
    assert with_rows == list(dict.fromkeys(name.partition(",")[0] for name in FAMILIES))
    parsers = {f"`{path.stem}`" for path in (ROOT / "tests/parsers/own").glob("[a-z]*.py")}
    assert {own for _, own, _ in listed if own} == parsers
