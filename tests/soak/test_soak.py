"""A short soak. `make soak` is the long one."""

from __future__ import annotations

import pytest

from tests.soak.soak import soak

pytestmark = pytest.mark.alone


def test_nothing_fails_and_nothing_piles_up() -> None:
    result = soak(10)
    assert result.faults == []
    clients = {client for client, _ in result.outcomes.statuses}
    polite = {"valid", "again", "ordinary", "reading"}
    assert clients == polite | {"invalid", "huge", "slow", "aborted", "hostile"}
    assert {
        ("valid", 200),
        ("ordinary", 200),
        ("huge", 413),
        ("slow", 408),
    } <= result.outcomes.statuses.keys()
