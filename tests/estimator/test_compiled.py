"""Programs that ran once, worked out for other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.estimator.jobs import plans
from trainfit.estimator.arithmetic import Course, Number, Written, course
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.layers import sublayer_groups
from trainfit.estimator.frameworks.megatron.programs import compiled
from trainfit.estimator.run import run_of
from trainfit.estimator.segment import add_up
from trainfit.resolve.megatron.plan import MegatronPlan


def written(a: int, b: int) -> tuple[Written, Number, Number]:
    found = Written()
    return found, found.input(a), found.input(b)


def followed(found: Written, *results: Number) -> Course:
    return course(found, 2, results)[0]


def test_arithmetic_is_done_again_with_other_numbers() -> None:
    found, a, b = written(6, 4)
    steps, (at,) = course(found, 2, [(3 * a * b) // 5 + b - 1])
    for x, y in ((6, 4), (1, 1), (7, 9)):
        values = steps.again([x, y])
        assert values is not None
        assert values[at] == 3 * x * y // 5 + y - 1


def test_what_is_made_twice_is_written_once_and_what_leads_nowhere_not_at_all() -> None:
    found, a, b = written(6, 4)
    assert (a * b).place == (a * b).place
    assert len(followed(found, a * b).steps) == 1
    assert not followed(found, a).steps


def test_numbers_by_which_another_course_is_taken_are_found_out() -> None:
    found, a, b = written(6, 4)
    steps = followed(found, max(a, b))
    assert steps.again([2, 1]) is not None
    assert steps.again([1, 2]) is None


def test_what_is_above_zero_anyway_decides_nothing() -> None:
    found, a, b = written(6, 4)
    assert a * b + 1
    assert not found.decided
    assert a // b
    assert found.decided


def test_nobody_takes_a_number_for_the_one_that_it_is_now() -> None:
    _, a, _ = written(6, 4)
    takers: list[Callable[[Any], object]] = [int, float, range, hash]
    for taken in takers:
        with pytest.raises(TypeError):
            taken(a)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans())
def test_a_compiled_program_comes_to_what_it_leaves_behind(plan: MegatronPlan) -> None:
    """Whatever sizes it was compiled for: each example finds those of the examples before."""
    ledger = MegatronLedger(run_of(plan))
    for layer in plan.model.layer_kinds:
        for each in layer.sublayers:
            found = compiled(ledger.way, sublayer_groups, each).table(ledger.sizes)
            assert found == add_up(ledger.sublayer(each), ledger.dropped)
