"""`trainfit keys`."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Run
from trainfit.api.api_keys import owner
from trainfit.api.settings import ServiceSettings


def test_a_new_key_opens_the_service_that_has_its_entry(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run("keys new portal")
    assert outcome.code == 0
    lines = re.fullmatch(r"key    (\S+)\nentry  (\S+)\n", outcome.out)
    assert lines
    key, entry = lines.groups()
    assert key not in entry
    monkeypatch.setenv("TRAINFIT_API_KEYS", entry)
    assert owner(f"Bearer {key}", ServiceSettings().api_keys) == "portal"


@pytest.mark.parametrize("label", ["", "=", "a=b", "-a", "a" * 65])
def test_a_label_that_no_entry_can_have_is_refused(run: Run, label: str) -> None:
    outcome = run(f"keys new -- {label}")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("trainfit: ")
