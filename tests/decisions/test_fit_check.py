"""What a fit-check answers: the verdict, the margins, the policy and what is not modelled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.decisions.questions import EIGHT_GPUS, GPT2, checked, needing, question
from trainfit.catalog.gpus import UnknownGpuError, find_gpu
from trainfit.decisions.fit_check import NotModelled, fit_check
from trainfit.estimator.results import Interval
from trainfit.resolve.findings import RefusedError


def test_margins_are_of_every_stage() -> None:
    answer = fit_check(question(GPT2), lambda _: needing((50, 90), (70, 110)))
    assert answer.verdict == "tight"
    assert answer.usable_bytes == answer.capacity_bytes == 100
    assert [stage.margin_bytes for stage in answer.stages] == [
        Interval(10, 30, 50),
        Interval(-10, 10, 30),
    ]


@pytest.mark.parametrize(
    ("policy", "reserved", "verdict"),
    [
        ({}, 0, "fits"),
        ({"headroom_bytes": 10}, 0, "fits"),
        ({"headroom_bytes": 11}, 0, "tight"),
        ({"headroom_ratio": 0.1}, 0, "fits"),
        ({"headroom_ratio": 0.101}, 0, "tight"),
        ({"headroom_ratio": 0.01, "headroom_bytes": 11}, 0, "tight"),
        ({"headroom_ratio": 0.5, "headroom_bytes": 1}, 0, "tight"),
        ({"reserved_other_bytes": 50}, 0, "tight"),
        ({"reserved_other_bytes": 30}, 21, "does_not_fit"),
        ({}, 51, "does_not_fit"),
        ({"reserved_other_bytes": 1000}, 0, "does_not_fit"),
    ],
)
def test_headroom_and_what_others_hold(policy: dict[str, Any], reserved: int, verdict: str) -> None:
    card = {"memory_bytes": 100, "reserved_other_bytes": reserved}
    request = question(GPT2, gpu=card, policy=policy, suggest=False)
    answer = fit_check(request, lambda _: needing((50, 90)))
    assert answer.verdict == verdict
    assert answer.capacity_bytes == 100
    held = reserved + policy.get("reserved_other_bytes", 0)
    assert answer.usable_bytes == max(0, 100 - held)
    assert answer.policy.reserved_other_bytes == held


def test_the_larger_headroom_is_the_one_applied() -> None:
    policy = {"headroom_ratio": 0.25, "headroom_bytes": 3}
    answer = fit_check(question(GPT2, policy=policy), lambda _: needing((1, 2)))
    assert answer.policy.headroom_bytes == 25


def test_a_catalogue_card_has_what_the_driver_reports() -> None:
    answer = checked(question(EIGHT_GPUS, suggest=False))
    assert answer.capacity_bytes == find_gpu("H100-80GB").reported_bytes


def test_an_override_lets_its_verdict_pass_and_repeats_its_reason() -> None:
    tight = {"verdict": "tight", "reason": "measured on Tuesday: 76 GiB"}
    unknown = {"verdict": "unknown", "reason": "the tower is frozen"}
    request = question(GPT2, policy={"allow": [tight, unknown]})
    answer = fit_check(request, lambda _: needing((90, 110)))
    assert (answer.verdict, answer.passes) == ("tight", True)
    assert [each.reason for each in answer.policy.overridden] == ["measured on Tuesday: 76 GiB"]
    assert len(answer.policy.allow) == 2


@pytest.mark.parametrize(("bounds", "passes"), [((1, 2), True), ((101, 102), False)])
def test_an_override_of_another_verdict_changes_nothing(
    bounds: tuple[int, int], passes: bool
) -> None:
    policy = {"allow": [{"verdict": "tight", "reason": "it ran"}]}
    answer = fit_check(question(GPT2, policy=policy), lambda _: needing(bounds))
    assert answer.passes is passes
    assert answer.policy.overridden == []


def test_an_option_that_is_not_modelled_is_named() -> None:
    training = {"optimizer": {"name": "adafactor"}}
    answer = checked(question(EIGHT_GPUS, training=training))
    assert (answer.verdict, answer.passes) == ("unknown", False)
    assert [each.pointer for each in answer.not_modelled] == ["/training/optimizer/name"]
    assert "adafactor" in answer.not_modelled[0].message
    assert answer.estimate is None
    assert answer.binding is None
    assert answer.stages == []
    assert answer.suggestions == []
    assert answer.capacity_bytes > 0


def test_parts_that_are_not_counted_are_named() -> None:
    answer = fit_check(question(GPT2), lambda _: needing((1, 2), warnings=("the tower",)))
    assert answer.verdict == "unknown"
    assert answer.not_modelled == [NotModelled("/model", "the tower", direction="raises")]
    assert answer.estimate is not None


def test_a_job_that_does_not_hold_together_is_refused() -> None:
    with pytest.raises(RefusedError, match="no multiple"):
        checked(question(EIGHT_GPUS, parallelism={"num_gpus": 7, "tp": 2}))


def test_an_unknown_card_is_refused() -> None:
    with pytest.raises(UnknownGpuError):
        checked(question(EIGHT_GPUS, gpu="H1000"))


def test_what_binds_is_what_the_estimate_says() -> None:
    answer = checked(question(EIGHT_GPUS, suggest=False))
    assert answer.estimate is not None
    assert answer.binding == answer.estimate.binding
    assert answer.verdict == "does_not_fit"
    assert answer.suggestions == []
