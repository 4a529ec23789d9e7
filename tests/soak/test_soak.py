"""A short soak. `make soak` is the long one."""

from __future__ import annotations

from tests.soak.soak import soak


def test_nothing_fails_and_nothing_piles_up() -> None:
    result = soak(10)
    assert result.faults == []
    clients = {client for client, _ in result.outcomes.statuses}
    assert clients == {"valid", "again", "invalid", "huge", "slow", "aborted", "reading"}
    assert {("valid", 200), ("huge", 413), ("slow", 408)} <= result.outcomes.statuses.keys()
