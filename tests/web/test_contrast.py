"""Words on the cells of the map stand out from them as WCAG 2.2 asks of text: by 4.5."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trainfit.web

STATIC = Path(trainfit.web.__file__).parent / "static"
SCRIPT = (STATIC / "decide" / "map.js").read_text("utf-8")
STYLE = (STATIC / "style" / "decide.css").read_text("utf-8")
CELLS = re.findall(r'"(#[0-9a-f]{6})"', SCRIPT)
DARK = re.findall(r"\d+", SCRIPT.partition("const DARK = ")[2].partition(";")[0])


def luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def words(shade: str) -> str:
    found = re.search(rf"\.cell\.{shade} {{\s*color: (#[0-9a-f]{{6}})", STYLE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("place", "cell"), list(enumerate(CELLS)))
def test_words_stand_out_from_their_cell(place: int, cell: str) -> None:
    text = words("dark" if str(place) in DARK else "pale")
    lighter, darker = sorted(map(luminance, (text, cell)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5
