"""The requests of a rank beside its ledger, on every step of PyTorch that was tracked."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import pytest

from tests.accuracy.test_torch_steps import FILES, usable
from tests.accuracy.torch_steps import Row, job_of
from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.estimator.trace.recorder import Trace
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan


class Traced(NamedTuple):
    """A row whose order of requests is known: the requests, and the ledger's allocated bytes."""

    row: Row
    trace: Trace
    allocated: int


@pytest.fixture(scope="module")
def traced() -> list[Traced]:
    found = []
    for row in chain.from_iterable(map(usable, FILES)):
        plan, memo = plan_of(job_of(row["spec"])), Memo()
        recorded = trace(plan, memo) if isinstance(plan, PytorchPlan) else None
        if recorded is not None:
            (stage,) = estimate(plan, memo=memo, replay=False).stages
            found.append(Traced(row, recorded, stage.allocated_bytes.expected))
    return found


def test_a_trace_asks_for_as_much_as_the_ledger_says(traced: list[Traced]) -> None:
    """Where they differ it is by little: the ledger adds up what is held at once with what one
    operation borrows, the trace has each as long as it is there.
    """
    differing = []
    for row, recorded, expected in traced:
        if recorded.peak_bytes != expected:
            assert abs(recorded.peak_bytes / expected - 1) < 0.0024, row["spec"]
            differing.append(row["spec"]["name"])
    assert len(traced) >= 180
    assert len(differing) <= len(traced) // 24, differing


def test_a_step_gives_back_what_it_asked_for(traced: list[Traced]) -> None:
    """Each later step leaves what the first one left: parameters, states and workspaces."""
    for row, recorded, _ in traced:
        held = set[object]()
        for each in recorded.later:
            if isinstance(each, Allocate):
                assert each.tensor not in held, row["spec"]
                held.add(each.tensor)
            else:
                assert isinstance(each, Free)
                held.remove(each.tensor)
        assert not held, row["spec"]
