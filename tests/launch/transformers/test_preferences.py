"""Losses of preferences: bounded where no second model is loaded, else not modelled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.questions.python import estimate

DPO = """
model_name_or_path: meta-llama/Llama-3.1-8B
per_device_train_batch_size: 2
gradient_accumulation_steps: 4
gradient_checkpointing: true
bf16: true
max_length: 1024
max_prompt_length: 512
beta: 0.1
output_dir: out
"""
LORA = "use_peft: true\nlora_r: 16\nlora_target_modules: all-linear\n"
SIMPO = "gamma_beta_ratio: 0.5\n"
EVALUATION = "eval_strategy: steps\nper_device_eval_batch_size: 8\n"
GPUS = {"parallelism": {"num_gpus": 8}}
ALIKE = {"framework": {"data_parallel_engine": "ddp"}}


def dpo(more: str = "") -> Read:
    return read(launch_of({"dpo.yaml": DPO + more}, overrides={**GPUS, **ALIKE}))


@pytest.mark.parametrize("more", [LORA, SIMPO])
def test_without_a_second_model_it_costs_at_most_a_step_on_four_samples_a_pair(
    more: str,
) -> None:
    (bounded,) = dpo(more).account.bounded
    assert (bounded.direction, bounded.samples, bounded.apart) == ("raises", 2, False)
    assert not dpo(more).unsupported


def test_a_reference_model_is_not_modelled() -> None:
    found = dpo()
    assert not found.bounded
    assert len(found.unsupported) == 1
    assert dpo(f"{LORA}force_use_ref_model: true\n").unsupported


def device(launch: dict[str, Any]) -> tuple[int, int, int]:
    size = estimate({"launch": launch}).binding.device_bytes
    return size.low, size.expected, size.high


def asked(text: str, **overrides: Any) -> dict[str, Any]:
    return {"files": [{"path": "dpo.yaml", "content": text}], "overrides": {**GPUS, **overrides}}


def test_the_bound_is_that_step_and_follows_the_batch() -> None:
    question = asked(DPO + LORA)
    accepted = question | {"accept_unsupported": ["*"]}
    low, expected, high = device(question)
    assert (low, expected) == device(accepted)[:2]
    step = {"micro_batch_size": 8, "loss": {"cross_entropy": "unfused"}}
    assert high == device(asked(DPO + LORA, training=step) | {"accept_unsupported": ["*"]})[2]
    larger = asked(DPO + LORA, training={"micro_batch_size": 8})
    step = {"micro_batch_size": 16, "loss": {"cross_entropy": "unfused"}}
    assert (
        device(larger)[2]
        == device(asked(DPO + LORA, training=step) | {"accept_unsupported": ["*"]})[2]
    )


def test_evaluation_is_a_phase_apart_that_lowers_no_bound_of_the_step() -> None:
    without_recompute = (DPO + LORA).replace("gradient_checkpointing: true", "")
    step = device(asked(without_recompute))
    beside = device(asked(without_recompute + EVALUATION))
    assert beside[:2] == step[:2]
    assert beside[2] >= step[2]
    (evaluation,) = [each for each in dpo(LORA + EVALUATION).account.bounded if each.apart]
    said = {each.pointer: each.value for each in evaluation.within}
    assert said["/training/micro_batch_size"] == 4 * 8


def zero(stage: int, **more: Any) -> str:
    return json.dumps({"zero_optimization": {"stage": stage, **more}, "bf16": {"enabled": True}})


def with_zero(config: str, num_gpus: int = 8) -> Read:
    files = {"dpo.yaml": DPO + "deepspeed: ds.json\n", "ds.json": config}
    return read(launch_of(files, overrides={"parallelism": {"num_gpus": num_gpus}}))


@pytest.mark.parametrize(("stage", "held"), [(1, "no_shard"), (2, "no_shard"), (3, "optim_grads")])
def test_a_reference_model_under_zero_is_bounded_by_what_is_not_shared_out(
    stage: int, held: str
) -> None:
    (told,) = with_zero(zero(stage)).account.bounded
    assert (told.direction, told.samples) == ("raises", 2)
    assert {each.pointer: each.value for each in told.within} == {
        "/training/loss/cross_entropy": "unfused",
        "/parallelism/data_parallel_sharding_strategy": held,
    }


def test_an_offload_to_nowhere_is_none() -> None:
    nowhere = zero(3, offload_param={"device": "none", "pin_memory": True})
    assert with_zero(nowhere).bounded
    assert not with_zero(nowhere).unsupported


def test_a_reference_model_that_nothing_bounds_is_unsupported() -> None:
    offloaded = zero(3, offload_param={"device": "cpu"})
    for found in (dpo(), with_zero(zero(0)), with_zero(zero(3), 1), with_zero(offloaded)):
        assert found.unsupported
        assert not found.bounded


def test_the_bound_of_a_reference_holds_its_weights() -> None:
    files = [
        {"path": "dpo.yaml", "content": DPO + "deepspeed: ds.json\n"},
        {"path": "ds.json", "content": zero(2)},
    ]
    launch = {"files": files, "overrides": GPUS, "gpu": "H100-80GB"}
    within = estimate({"launch": launch}).binding.device_bytes
    alone = estimate({"launch": launch | {"accept_unsupported": ["*"]}}).binding.device_bytes
    # Llama-3.1-8B has 8.03 billion parameters, of which a whole copy in bf16 is 16 GB
    assert within.high - alone.high > 16_060_000_000
