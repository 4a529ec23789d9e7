"""Constants of step time are found again from runs that they made."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

import pytest

from tests.accuracy.constants import (
    Constant,
    Run,
    errors_of,
    fitted,
    held_out,
    unscaled,
    usual,
    with_constants,
)
from tests.accuracy.rankings import Place, order_of
from tests.steptime.test_step_time import plan
from trainfit.steptime import StepTime, step_time, surroundings

SIZES = [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 4), (2, 4)]


def runs(products: float) -> list[Run]:
    """Layouts of an 8B model, timed by what is known of every constant without any run, but that
    its products reach so much of that.
    """
    found = []
    for tp, pp in SIZES:
        layout = plan(parallelism={"tp": tp, "pp": pp})
        on = surroundings(layout)
        assert on is not None
        known = with_constants(on, {})
        there = known._replace(stack=replace(known.stack, products=products))
        answer = step_time(layout, on=there)
        assert isinstance(answer, StepTime)
        found.append(Run({"trust": "A", "tp": tp}, layout, on, answer.seconds.expected))
    return found


def test_constants_that_are_fitted_tell_the_time_of_the_runs() -> None:
    slow = runs(0.8)
    values = fitted(slow)
    before = mean(map(abs, errors_of(slow, usual(values))))
    assert mean(map(abs, errors_of(slow, values))) < 0.02 < before
    product = Constant("reach", "H100", "bf16")
    faster = fitted(runs(1.1))
    assert unscaled("bf16", values[product]) < unscaled("bf16", faster[product])


def test_what_is_held_out_is_not_fitted_to() -> None:
    some = runs(1.0)
    some[3] = some[3]._replace(seconds=2 * some[3].seconds)
    errors = held_out(some, lambda run: run.row["tp"])
    assert errors[3] < -0.5
    assert [errors[3]] == errors_of(some[3:4], fitted([*some[:3], *some[4:]]))


@pytest.mark.parametrize(
    ("places", "right", "wrong", "regret"),
    [
        ([(1, 1), (2, 2), (3, 3)], 3, 0, 0.0),
        ([(1, 2), (2, 1), (3, 3)], 2, 1, 1.0),
        ([(1, 1), (1, 2), (2, 2)], 1, 0, 0.0),
    ],
)
def test_the_order_of_a_group(
    places: list[tuple[float, float]], right: int, wrong: int, regret: float
) -> None:
    found = order_of([[Place(*each) for each in places]])
    assert found == (right, wrong, [regret])
