"""A run by several releases has the bounds of all."""

from __future__ import annotations

from typing import Any

from trainfit.estimator.span import spanned_estimate, spanned_needs
from trainfit.questions.estimate import price
from trainfit.questions.pricing import Pricing
from trainfit.specs.job import Job

MEANT, OTHER = "takes 2 samples", "takes 3"


def job(samples: int = 2, **loss: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "parallelism": {"num_gpus": 1},
            "training": {
                "micro_batch_size": samples,
                "seq_length": 4096,
                "precision": "bf16-pure",
                "recompute": {"granularity": "full"},
                "loss": loss,
                "peft": {"method": "lora", "r": 8, "target_modules": "all-linear"},
            },
            "framework": {"name": "transformers"},
        }
    )


def test_bounds_span_and_what_is_expected_stays() -> None:
    meant, other = price(job()), price(job(3))
    low, high = meant.stages[0].device_bytes.low, other.stages[0].device_bytes.high
    assert low < other.stages[0].device_bytes.low
    found = spanned_estimate(meant, {OTHER: other})
    for interval in (found.stages[0].device_bytes, found.binding.device_bytes):
        assert (interval.low, interval.high) == (low, high)
        assert interval.expected == meant.stages[0].device_bytes.expected
    told = found.assumptions[-1]
    assert told.id == "several-releases"
    assert told.text.endswith(f"Here the high bound is that of {OTHER}.")


def test_what_decides_spans_alike() -> None:
    pricing = Pricing()
    meant, other = pricing.needs(job(3)), pricing.needs(job())
    found = spanned_needs(meant, [other])
    estimate = spanned_estimate(price(job(3)), {MEANT: price(job())})
    assert [each.device_bytes for each in found.stages] == [
        each.device_bytes for each in estimate.stages
    ]
    assert found.binding == estimate.binding
    assert estimate.assumptions[-1].text.endswith(f"Here the low bound is that of {MEANT}.")


def test_releases_that_need_the_same_are_not_told() -> None:
    meant = price(job())
    assert spanned_estimate(meant, {OTHER: meant}) == meant


def test_shifted_logits_are_a_copy_beside_the_others() -> None:
    """Llama's loss holds, of n tokens and V words: narrow logits, fp32 ones and log-probabilities,
    and before 4.49 the copy; gradients of log-probabilities and logits beside them come later.
    """
    tokens, words = 2 * 4096, 128256
    labels, logits, fp32 = (
        price(job(shifted=each)).stages[0].allocated_bytes.expected
        for each in ("labels", "logits", "fp32_logits")
    )
    # 2 + 4 + 4 + 4 bytes in the forward, against 4 + 4 + 4 in the backward.
    assert abs(logits - labels - 2 * tokens * words) < 0.02 * labels
    # 4 + 4 + 4 in either, where the narrow logits are gone.
    assert abs(fp32 - labels) < 0.02 * labels
