"""The largest micro-batch and the longest sequence that fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.questions import EIGHT_GPUS, checked, question
from trainfit.decisions.fit_check import FitCheck
from trainfit.decisions.limits import Largest, last_that_holds

BOTH = {"micro_batch_size": True, "seq_length": True}


def asked(**parts: Any) -> FitCheck:
    return checked(question(EIGHT_GPUS, suggest=False, limits=BOTH, **parts))


@given(
    st.lists(st.integers(0, 10**6), min_size=1, unique=True).map(sorted),
    st.integers(-1, 10**6),
    st.data(),
)
def test_the_last_that_holds(values: list[int], bound: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values) - 1))
    found = last_that_holds(lambda value: value <= bound, values, start)
    assert found == max((value for value in values if value <= bound), default=None)


def test_few_probes_are_made() -> None:
    probes: list[int] = []

    def holds(value: int) -> bool:
        probes.append(value)
        return value <= 1_000_000

    assert last_that_holds(holds, range(16_777_217), 4096) == 1_000_000
    assert len(probes) < 45
    assert len(probes) == len(set(probes))


def test_nothing_is_looked_for_unless_asked() -> None:
    assert checked(question(EIGHT_GPUS, suggest=False)).limits == Largest(None, None)


def test_the_largest_fit_and_the_next_do_not() -> None:
    training = {"seq_length": 4096, "recompute": {"granularity": "full"}}
    parallelism = {"num_gpus": 8, "tp": 2, "cp": 2}
    found = asked(training=training, parallelism=parallelism).limits
    assert found.micro_batch_size is not None
    assert found.seq_length is not None
    assert found.seq_length % 4 == 0
    for name, value, step in (
        ("micro_batch_size", found.micro_batch_size, 1),
        ("seq_length", found.seq_length, 4),
    ):
        largest, larger = (
            checked(
                question(
                    EIGHT_GPUS,
                    training={**training, name: each},
                    parallelism=parallelism,
                    suggest=False,
                )
            )
            for each in (value, value + step)
        )
        assert largest.verdict == "fits"
        assert larger.verdict != "fits"


def test_micro_batches_divide_the_global_batch() -> None:
    training = {
        "seq_length": 512,
        "micro_batch_size": 1,
        "global_batch_size": 8 * 12,
        "recompute": {"granularity": "full"},
    }
    largest = asked(training=training).limits.micro_batch_size
    assert largest in (1, 2, 3, 4, 6, 12)


@pytest.mark.parametrize("memory_bytes", [1, 2**30])
def test_nothing_fits_on_too_small_a_card(memory_bytes: int) -> None:
    assert asked(gpu={"memory_bytes": memory_bytes}).limits == Largest(None, None)


def test_a_job_that_is_not_modelled_has_no_limits() -> None:
    training = {"seq_length": 512, "optimizer": {"name": "adafactor"}}
    assert asked(training=training).limits == Largest(None, None)
