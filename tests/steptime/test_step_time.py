"""The time of a step, from plans."""

from dataclasses import fields
from typing import Any

import pytest

from trainfit import estimate, fit_check
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.steptime import StepTime, Untimed, step_time
from trainfit.steptime.alignment import misaligned

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
        "speed": parts.get("speed"),
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


def test_all_wait_for_the_slowest_of_more_gpus_than_a_node_has() -> None:
    """By as much of all else for every doubling."""
    waits = []
    for num_gpus in (8, 16, 64):
        answer = timed(parallelism={"num_gpus": num_gpus})
        seconds = answer.parts.jitter_seconds
        waits.append(seconds / (answer.seconds.expected - seconds))
    assert waits[0] == 0 < waits[1]
    assert waits[2] == pytest.approx(3 * waits[1])


def test_a_memo_changes_nothing() -> None:
    memo = Memo()
    first, again = step_time(plan(), memo=memo), step_time(plan(), memo=memo)
    assert first == again == step_time(plan())


@pytest.mark.parametrize("gpu", [None, "T4"])
def test_a_gpu_of_unknown_speed_is_named(gpu: str | None) -> None:
    answer = step_time(plan(gpu=gpu))
    assert isinstance(answer, Untimed)
    assert (gpu or "no GPU was named") in answer.reason


def test_sizes_that_tensor_cores_are_slow_with_are_named() -> None:
    """As in BLOOM's experiments: 13,824 features in 128 heads, and in 96."""
    spec: dict[str, Any] = {
        "num_layers": 2,
        "hidden_size": 13824,
        "vocab_size": 51200,
        "ffn_hidden_size": 55296,
    }
    spec |= {"max_position_embeddings": 8192}
    slow, even = (
        misaligned(plan({"spec": {**spec, "num_attention_heads": heads}}), Memo())
        for heads in (128, 96)
    )
    assert any("heads of 108 features" in each for each in slow)
    assert not even


@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "transformers"])
def test_usual_models_have_no_such_sizes(framework: str) -> None:
    assert not misaligned(plan(framework={"name": framework}), Memo())
    assert not misaligned(plan({"hf_id": "deepseek-ai/DeepSeek-V3"}), Memo())
    odd = plan({"hf_id": "gpt2"}, framework={"name": "transformers"}, training={"seq_length": 512})
    assert any("50257 features" in each for each in misaligned(odd, Memo()))


def test_what_is_slow_makes_no_verdict_unknown() -> None:
    spec: dict[str, Any] = {
        "num_layers": 2,
        "hidden_size": 1080,
        "num_attention_heads": 10,
        "vocab_size": 51200,
    }
    spec |= {"max_position_embeddings": 4096}
    job = {"model": {"spec": spec}, "parallelism": {"num_gpus": 1}, "gpu": "H100-80GB"}
    assert estimate(job).misaligned
    assert not estimate(job).warnings
    assert fit_check(job).verdict == "fits"
