"""What an estimate costs grows no faster than what is asked about, and is told before."""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from functools import cache
from typing import Any, get_args

import pytest

from trainfit.estimator.estimate import estimate
from trainfit.estimator.work import CHEAP, is_cheap, work
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.framework import FrameworkName
from trainfit.specs.job import Job

SPEC = {
    "num_layers": 512,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "position_embedding_type": "rope",
    "normalization": "RMSNorm",
    "swiglu": True,
    "add_bias_linear": False,
}
SCHEDULES = [
    ("megatron", "1f1b", 1),
    ("megatron", "interleaved", 4),
    ("megatron", "zb-v", 2),
    ("torchtitan", "1f1b", 1),
    ("torchtitan", "gpipe", 1),
    ("torchtitan", "interleaved", 4),
    ("torchtitan", "looped-bfs", 4),
    ("torchtitan", "interleaved-zb", 4),
    ("torchtitan", "zb-v", 2),
    ("torchtitan", "dualpipe-v", 2),
    ("nanotron", "gpipe", 1),
    ("nanotron", "1f1b", 1),
]


def plan(framework: str, pp: int = 1, vpp: int = 1, **parts: Any) -> Plan:
    parallelism = {"pp": pp, "vpp": vpp} | parts.pop("parallelism", {})
    training = {"seq_length": 64} | parts.pop("training", {})
    return plan_of(
        Job.model_validate(
            {
                "model": {"spec": SPEC | parts.pop("spec", {})},
                "parallelism": parallelism,
                "training": training,
                "framework": {"name": framework} | parts,
            }
        )
    )


@cache
def steps(made: Plan) -> int:
    """Calls of functions that an estimate takes, in Python or C, once all that it needs is loaded
    and its programs are written down.
    """
    estimate(made)
    estimate(made)
    profile = Profile()
    profile.runcall(estimate, made)
    return sum(entry.callcount for entry in profile.getstats())


def doubled(make: Callable[[int], Plan], size: int) -> tuple[float, float]:
    """By how much steps and work grow where the size is twice as large."""
    small, large = make(size), make(2 * size)
    return steps(large) / steps(small), work(large) / work(small)


@pytest.mark.parametrize(("framework", "schedule", "vpp"), SCHEDULES)
def test_twice_the_ranks_take_twice_the_steps(framework: str, schedule: str, vpp: int) -> None:
    parallelism = {"pipeline_schedule": schedule}
    in_steps, in_work = doubled(lambda pp: plan(framework, pp, vpp, parallelism=parallelism), 8)
    assert in_steps < 2.5
    assert in_work < 2.5


@pytest.mark.parametrize("schedule", ["interleaved", "looped-bfs", "interleaved-zb"])
def test_twice_the_chunks_take_twice_the_steps(schedule: str) -> None:
    parallelism = {"pipeline_schedule": schedule}
    in_steps, in_work = doubled(lambda vpp: plan("torchtitan", 4, vpp, parallelism=parallelism), 8)
    assert in_steps < 2.5
    assert in_work < 2.5


@pytest.mark.parametrize(("framework", "schedule", "vpp"), SCHEDULES)
def test_micro_batches_beyond_the_steady_state_take_none(
    framework: str, schedule: str, vpp: int
) -> None:
    def make(rounds: int) -> Plan:
        parallelism = {"pipeline_schedule": schedule}
        training = {"num_microbatches": 8 * rounds}
        return plan(framework, 8, vpp, parallelism=parallelism, training=training)

    few, many = make(8), make(131_072)
    assert steps(many) < 1.2 * steps(few)
    assert work(many) == work(few)


@pytest.mark.parametrize("framework", get_args(FrameworkName))
@pytest.mark.parametrize("granularity", [None, "full"])
def test_twice_the_layers_take_twice_the_steps(framework: str, granularity: str | None) -> None:
    training = {"recompute": {"granularity": granularity}} if granularity else {}
    in_steps, in_work = doubled(
        lambda layers: plan(framework, spec={"num_layers": layers}, training=training), 64
    )
    assert in_steps < 2.5
    assert in_work < 2.5


@pytest.mark.parametrize(("framework", "schedule", "vpp"), SCHEDULES)
@pytest.mark.parametrize("pp", [2, 16])
def test_no_estimate_takes_more_steps_than_its_work_says(
    framework: str, schedule: str, vpp: int, pp: int
) -> None:
    """A unit of work is about a microsecond, in which Python calls some ten functions."""
    made = plan(framework, pp, vpp, parallelism={"pipeline_schedule": schedule})
    assert steps(made) < 10 * work(made)


def test_common_jobs_are_cheap_and_large_ones_are_not() -> None:
    layers = {"num_layers": 64}
    assert is_cheap(plan("megatron", 16, 2, spec=layers), replay=False)
    assert is_cheap(plan("torchtitan", 8, spec=layers))
    assert is_cheap(plan("nanotron", spec=layers))
    assert not is_cheap(plan("torchtitan", 64, 4))
    assert work(plan("torchtitan", 512)) > 10 * CHEAP


@pytest.mark.parametrize("framework", ["transformers", "megatron"])
@pytest.mark.parametrize("layers", [64, 256])
def test_jobs_whose_requests_are_replayed_are_not_cheap(framework: str, layers: int) -> None:
    made = plan(framework, spec={"num_layers": layers})
    assert not is_cheap(made)
    assert steps(made) < 10 * work(made)
