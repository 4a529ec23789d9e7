"""The requests of a rank beside its ledger, on every step of PyTorch that was tracked."""

from __future__ import annotations

from itertools import chain

from tests.accuracy.test_torch_steps import FILES, usable
from tests.accuracy.torch_steps import Row, job_of
from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan


def traced() -> list[tuple[Row, PytorchPlan]]:
    """Rows whose order of requests is known."""
    rows = chain.from_iterable(map(usable, FILES))
    plans = [(row, plan_of(job_of(row["spec"]))) for row in rows]
    return [
        (row, plan)
        for row, plan in plans
        if isinstance(plan, PytorchPlan) and trace(plan, Memo()) is not None
    ]


def test_a_trace_asks_for_as_much_as_the_ledger_says() -> None:
    """Where they differ it is by little: the ledger adds up what is held at once with what one
    operation borrows, the trace has each as long as it is there.
    """
    differing = []
    for row, plan in (rows := traced()):
        memo = Memo()
        recorded = trace(plan, memo)
        assert recorded is not None
        (stage,) = estimate(plan, memo=memo).stages
        expected = stage.allocated_bytes.expected
        if recorded.peak_bytes != expected:
            assert abs(recorded.peak_bytes / expected - 1) < 0.0024, row["spec"]
            differing.append(row["spec"]["name"])
    assert len(rows) >= 180
    assert len(differing) <= len(rows) // 24, differing


def test_a_step_gives_back_what_it_asked_for() -> None:
    """Each later step leaves what the first one left: parameters, states and workspaces."""
    for row, plan in traced()[::10]:
        recorded = trace(plan, Memo())
        assert recorded is not None
        held = set[object]()
        for each in recorded.later:
            if isinstance(each, Allocate):
                assert each.tensor not in held, row["spec"]
                held.add(each.tensor)
            else:
                assert isinstance(each, Free)
                held.remove(each.tensor)
        assert not held, row["spec"]
