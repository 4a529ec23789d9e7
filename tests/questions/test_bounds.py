"""What a share of a card bounds, and bytes that come besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.launch.launches import launch_of
from trainfit.estimator.estimate import estimate
from trainfit.estimator.overhead import SLACK_PERCENT
from trainfit.estimator.results import Estimate
from trainfit.questions.bounds import bounded_estimate
from trainfit.questions.estimate import plan_of
from trainfit.questions.launches import RequestedJob, job_from
from trainfit.questions.problems import Problem
from trainfit.specs.job import Job

COLOCATED = (
    "trl grpo --model_name_or_path Qwen/Qwen2.5-0.5B --max_completion_length 256 --bf16 "
    "--per_device_train_batch_size 2 --use_vllm --vllm_mode colocate "
    "--vllm_gpu_memory_utilization 0.25"
)


def requested(gpu: str | None) -> RequestedJob[Job]:
    overrides = {"training": {"seq_length": 512}, "parallelism": {"num_gpus": 1}}
    launch = launch_of({"run.sh": COLOCATED}, overrides=overrides, gpu=gpu)
    found = job_from(launch)
    assert not isinstance(found, Problem)
    return found


def priced(job: Job) -> Estimate:
    return estimate(plan_of(job), replay=False)


def test_a_share_is_of_the_memory_of_the_card() -> None:
    found = requested("H100-80GB")
    (engine,) = [each for each in found.bounded if each.share]
    (plain,), (reaching,) = (
        each.stages for each in (priced(found.job), bounded_estimate(found.job, [engine], priced))
    )
    most = reaching.device_bytes.high - plain.device_bytes.high
    assert most == pytest.approx(0.25 * 80 * 2**30 + 8 * 2**30, rel=0.02)
    assert reaching.device_bytes.low == plain.device_bytes.low


def test_more_may_be_cached_beside_tensors() -> None:
    found = requested("H100-80GB")
    (engine,) = [each for each in found.bounded if each.share]
    tensors = replace(engine, share=0, outside=False)
    (plain,), (reaching,) = (
        each.stages for each in (priced(found.job), bounded_estimate(found.job, [tensors], priced))
    )
    assert reaching.allocated_bytes.high - plain.allocated_bytes.high == tensors.bytes
    cached = tensors.bytes * SLACK_PERCENT.high // 100
    assert reaching.reserved_bytes.high - plain.reserved_bytes.high == tensors.bytes + cached


def test_without_a_card_nothing_bounds_it() -> None:
    found = requested(None)
    assert not [each for each in found.bounded if each.share]
    assert "raises" in found.unread
