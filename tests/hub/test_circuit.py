"""The circuit breaker."""

from __future__ import annotations

import pytest

from trainfit.hub.circuit import FAILURES, FIRST_SECONDS, LONGEST_SECONDS, Circuit
from trainfit.hub.errors import UnreachableError


class Clock:
    """Seconds that pass when one says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuit(clock: Clock) -> Circuit:
    return Circuit(clock)


def fail(circuit: Circuit, times: int = FAILURES) -> None:
    for number in range(times):
        circuit.failed(f"acme/m{number}", connected=True)


def test_some_failures_in_a_row_open_it(circuit: Circuit) -> None:
    fail(circuit, FAILURES - 1)
    circuit.admit()
    circuit.failed("acme/last", connected=True)
    with pytest.raises(UnreachableError) as refused:
        circuit.admit()
    assert refused.value.retry_after == FIRST_SECONDS


def test_an_answer_between_them_counts(circuit: Circuit) -> None:
    for _ in range(3):
        fail(circuit, FAILURES - 1)
        circuit.succeeded()
    assert not circuit.is_open


def test_one_model_alone_does_not_open_it(circuit: Circuit) -> None:
    for _ in range(10):
        circuit.failed("acme/broken", connected=True)
    circuit.admit()


def test_without_a_connection_it_opens_at_once(circuit: Circuit) -> None:
    circuit.failed("acme/small", connected=False)
    with pytest.raises(UnreachableError):
        circuit.admit()


def test_then_one_goes_ahead(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    clock.now = FIRST_SECONDS
    circuit.admit()
    with pytest.raises(UnreachableError):
        circuit.admit()
    circuit.succeeded()
    circuit.admit()
    circuit.admit()


def test_it_waits_longer_each_time_and_not_for_ever(circuit: Circuit, clock: Clock) -> None:
    fail(circuit)
    waits = []
    for _ in range(8):
        with pytest.raises(UnreachableError) as refused:
            circuit.admit()
        assert refused.value.retry_after is not None
        waits.append(refused.value.retry_after)
        clock.now += refused.value.retry_after
        circuit.admit()
        circuit.failed("acme/small", connected=True)
    assert waits[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert waits[-1] == LONGEST_SECONDS
