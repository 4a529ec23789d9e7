"""Lengths of micro-batches whose samples are padded to the longest among them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import LengthSpread
from trainfit.specs.job import Job

tokens = st.integers(1, 65_536)
SPREADS = st.builds(
    LengthSpread,
    longest=tokens,
    samples=st.integers(1, 64),
    mean=st.none() | tokens,
    quantiles=st.lists(tokens, max_size=9).map(lambda found: tuple(sorted(found))),
    multiple=st.sampled_from([1, 8, 64, 4096]),
    longest_first=st.booleans(),
)


def spread(**told: Any) -> LengthSpread:
    usual: dict[str, Any] = {
        "longest": 1024,
        "samples": 1,
        "mean": None,
        "quantiles": (),
        "multiple": 1,
        "longest_first": False,
    }
    return LengthSpread(**usual | told)


@given(SPREADS)
def test_every_order_has_the_longest_once_and_no_longer_one(each: LengthSpread) -> None:
    for order in (each.usual(), each.worst()):
        assert order.count(each.longest) == 1
        assert len(set(order)) == len(order)
        assert order[0 if each.longest_first else -1] == max(order) == each.longest
        assert all(length % each.multiple == 0 for length in order if length != each.longest)
        rising = order[1:] if each.longest_first else order
        assert list(rising) == sorted(rising)


def test_a_new_longest_takes_half_of_what_is_left() -> None:
    assert spread().usual() == (512, 768, 896, 960, 1024)


def test_the_longest_of_more_samples_is_longer() -> None:
    assert spread(samples=4).within(0.5) == 862  # 1024 / 2 ** (1 / 4), rounded up


def test_a_mean_and_quantiles_tell_of_shorter_ones() -> None:
    assert spread(mean=100).within(0.5) == 70  # 100 ln 2
    assert spread(quantiles=(200,)).within(0.5) == 200
    assert spread(quantiles=(100, 200, 300)).within(0.25) == 100


def test_lengths_are_cut_at_the_longest() -> None:
    assert spread(mean=1024).usual() == (710, 1024)


def refused(**lengths: Any) -> list[tuple[str, str]]:
    job = {
        "model": {"hf_id": "mistralai/Mistral-7B-v0.1"},
        "training": {"seq_length": 512, "lengths": lengths},
        "framework": {"name": "transformers"},
    }
    with pytest.raises(RefusedError) as caught:
        plan_of(Job.model_validate(job))
    return [(each.pointer, each.code) for each in caught.value.findings]


def test_what_is_said_of_lengths_holds_together() -> None:
    where = "/training/lengths"
    assert refused(mean=100, quantiles=[100]) == [(f"{where}/mean", "conflict")]
    assert refused(quantiles=[300, 100]) == [(f"{where}/quantiles", "conflict")]
    assert refused(mean=513) == [(where, "conflict")]
