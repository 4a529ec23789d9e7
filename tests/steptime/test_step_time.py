"""The time of a step, from plans."""

from dataclasses import fields
from typing import Any

import pytest

from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.steptime import StepTime, Untimed, step_time

LLAMA = {"hf_id": "meta-llama/Llama-3.1-8B"}


def plan(model: Any = None, gpu: str | None = "H100-80GB", **parts: Any) -> Plan:
    """A Megatron job of Llama-3.1-8B on 8 GPUs, but for what is given."""
    job = {
        "model": model or LLAMA,
        "parallelism": {"num_gpus": 8, **parts.get("parallelism", {})},
        "training": {
            "micro_batch_size": 1,
            "global_batch_size": 128,
            "seq_length": 8192,
            **parts.get("training", {}),
        },
        "framework": {"name": "megatron", **parts.get("framework", {})},
        "gpu": gpu,
    }
    return plan_of(Job.model_validate(job))


def timed(*args: Any, **parts: Any) -> StepTime:
    answer = step_time(plan(*args, **parts))
    assert isinstance(answer, StepTime)
    return answer


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "transformers"])
def test_parts_add_up_to_the_expected_seconds(framework: str) -> None:
    answer = timed(framework={"name": framework}, parallelism={"tp": 2})
    parts = [getattr(answer.parts, field.name) for field in fields(answer.parts)]
    assert sum(parts) == pytest.approx(answer.seconds.expected)
    assert all(part >= 0 for part in parts)
    assert answer.seconds.low < answer.seconds.expected < answer.seconds.high


def test_tokens_and_utilization_follow_from_the_seconds() -> None:
    answer = timed()
    seconds = answer.seconds.expected
    assert answer.tokens_per_second == pytest.approx(128 * 8192 / seconds)
    assert answer.tokens_per_second_per_gpu == pytest.approx(answer.tokens_per_second / 8)
    # 6 FLOP for each parameter but the embedding's, and 6 L h s / 2 of causal attention.
    each = 6 * (8_030_261_248 - 128_256 * 4096) + 6 * 2 * 32 * 4096 * 8192 / 2
    assert answer.model_flops_per_gpu == pytest.approx(128 * 8192 * each / 8, rel=0.01)
    expected = answer.model_flops_per_gpu / seconds / 989e12
    assert answer.model_flops_utilization_ratio == pytest.approx(expected)


def test_a_memo_changes_nothing() -> None:
    memo = Memo()
    first, again = step_time(plan(), memo=memo), step_time(plan(), memo=memo)
    assert first == again == step_time(plan())


@pytest.mark.parametrize("gpu", [None, "T4"])
def test_a_gpu_of_unknown_speed_is_named(gpu: str | None) -> None:
    answer = step_time(plan(gpu=gpu))
    assert isinstance(answer, Untimed)
    assert (gpu or "no GPU was named") in answer.reason
