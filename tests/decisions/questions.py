"""Questions about fit, small enough to be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainfit.decisions.fit_check import FitCheck, fit_check
from trainfit.estimator.results import Estimate, Interval
from trainfit.questions.estimate import price
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

GPT2 = {"model": {"hf_id": "gpt2"}, "gpu": {"memory_bytes": 100}}
EIGHT_GPUS = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8},
    "training": {"seq_length": 8192, "micro_batch_size": 2, "global_batch_size": 64},
    "gpu": "H100-80GB",
}


def question(base: dict[str, Any], **parts: Any) -> FitCheckRequest:
    return FitCheckRequest.model_validate(base | parts)


def checked(request: FitCheckRequest) -> FitCheck:
    return fit_check(request, price)


def needing(*bounds: tuple[int, int], warnings: tuple[str, ...] = ()) -> Estimate:
    """An estimate whose stages need between these bounds, whatever the job."""
    answered = price(Job.model_validate({"model": {"hf_id": "gpt2"}}))
    stages = [
        replace(
            answered.stages[0],
            pp_rank=rank,
            device_bytes=Interval(low, (low + high) // 2, high),
        )
        for rank, (low, high) in enumerate(bounds)
    ]
    return replace(answered, stages=stages, warnings=list(warnings))
