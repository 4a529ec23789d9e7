"""What questions cost, beside a route that does nothing, does not worsen by a quarter unseen."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bench.ratios import measured

RECORDED: dict[str, float] = json.loads(Path(__file__).with_name("ratios.json").read_text())
"""What `python -m tests.bench.ratios` printed when it was last looked at; a change that is worth
more writes it anew, and says why.
"""
WORSE = 1.25


def test_no_question_costs_a_quarter_more() -> None:
    found = measured()
    assert found.keys() == RECORDED.keys()
    assert {
        name: (found[name], most) for name, most in RECORDED.items() if found[name] > WORSE * most
    } == {}
