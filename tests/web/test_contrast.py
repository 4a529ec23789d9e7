"""Words on the cells of the map stand out from them as WCAG 2.2 asks of text: by 4.5."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trainfit.web

STATIC = Path(trainfit.web.__file__).parent / "static"
SCRIPT = (STATIC / "decide" / "shades.js").read_text("utf-8")
STYLE = (STATIC / "style" / "decide.css").read_text("utf-8")
SHADES = re.findall(r'\["(#[0-9a-f]{6})", "(dark|pale)"\]', SCRIPT)


def luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def words(shade: str) -> str:
    found = re.search(rf"\.cell\.{shade} {{\s*color: (#[0-9a-f]{{6}})", STYLE)
    assert found is not None
    return found[1]


def test_the_shades_are_found() -> None:
    assert len(SHADES) == SCRIPT.count('["#')


@pytest.mark.parametrize(("cell", "shade"), SHADES)
def test_words_stand_out_from_their_cell(cell: str, shade: str) -> None:
    text = words(shade)
    lighter, darker = sorted(map(luminance, (text, cell)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5
