"""Losses of preferences: what is compared with what, and by whose code."""

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
beta: 0.1
output_dir: out
"""
LORA = "use_peft: true\nlora_r: 16\nlora_target_modules: all-linear\n"
SIMPO = "gamma_beta_ratio: 0.5\n"
BEFORE = "precompute_ref_log_probs: true\n"
EVALUATION = "eval_strategy: steps\nper_device_eval_batch_size: 8\n"
GPUS = {"parallelism": {"num_gpus": 8}}
ALIKE = {"framework": {"data_parallel_engine": "ddp"}}
LOSS = "/training/loss"


def dpo(more: str = "", version: str | None = None) -> Read:
    text = {"dpo.yaml": DPO + more}
    return read(launch_of(text, overrides={**GPUS, **ALIKE}, framework_version=version))


@pytest.mark.parametrize(
    ("more", "reference"),
    [
        ("", "copy"),
        (LORA, "base"),
        (f"{LORA}force_use_ref_model: true\n", "copy"),
        (SIMPO, None),
        (BEFORE, None),
    ],
)
def test_the_reference_is_the_model_that_is_loaded_for_it(more: str, reference: str | None) -> None:
    found = dpo(more)
    assert found.field(f"{LOSS}/objective") == "preference"
    assert found.field(f"{LOSS}/reference") == reference
    assert found.field("/training/micro_batch_size") == 4, "both samples of each pair"
    assert not found.bounded | found.unsupported


@pytest.mark.parametrize(
    ("release", "by"),
    [
        ("0.9.6", "trl-0.9"),
        ("0.11.4", "trl-0.9"),
        ("0.13.0", "trl-0.12"),
        ("0.18.2", "trl-0.15"),
        ("0.24.0", "trl-0.19"),
        ("1.5.1", "trl-0.29"),
        ("1.9.0", "trl-1.6"),
        ("1.16.0", "trl-1.15"),
    ],
)
def test_log_probabilities_are_those_of_the_release(release: str, by: str) -> None:
    assert dpo(version=f"trl=={release}").field(f"{LOSS}/log_probs_by") == by


def test_keys_that_are_gone_tell_of_earlier_releases() -> None:
    assert dpo().field(f"{LOSS}/log_probs_by") == "trl-1.15"
    found = dpo("max_prompt_length: 512\n")
    assert found.field(f"{LOSS}/log_probs_by") in ("trl-0.19", "trl-0.15", "trl-0.12", "trl-0.9")


def test_what_adds_to_the_loss_and_what_lowers_its_memory() -> None:
    assert dpo("rpo_alpha: 1.0\n").field(f"{LOSS}/chosen_nll")
    assert dpo("loss_type: [sigmoid, sft]\n").field(f"{LOSS}/chosen_nll")
    (told,) = dpo("use_logits_to_keep: true\n").account.bounded
    assert told.direction == "lowers"
    assert dpo("use_weighting: true\n").unsupported == {"use_weighting"}


TRLS = (
    "python {}.py --model_name_or_path meta-llama/Llama-3.1-8B --per_device_train_batch_size 2 "
    "--max_length 1024 --bf16 --gradient_checkpointing --output_dir out"
)
AXOLOTLS = "base_model: google/gemma-2-2b\nsequence_len: 2048\nmicro_batch_size: 2\nbf16: true\n"


@pytest.mark.parametrize(
    ("words", "nll"),
    [
        ("orpo", True),
        ("cpo", True),
        ("cpo --cpo_alpha 0.5", True),
        ("cpo --loss_type simpo --cpo_alpha 0.0", None),
        ("cpo --loss_type alphapo", None),
    ],
)
@pytest.mark.parametrize(
    ("release", "by"), [("0.11.4", "trl-orpo-0.9"), ("1.9.0", "trl-orpo-0.15")]
)
def test_orpo_and_cpo_compare_with_nothing(
    words: str, nll: bool | None, release: str, by: str
) -> None:
    name, *more = words.split()
    argv = [*TRLS.format(name).split(), *more]
    found = read(launch_of(argv=argv, overrides=GPUS, framework_version=f"trl=={release}"))
    said = [found.field(f"{LOSS}/{each}") for each in ("objective", "reference", "log_probs_by")]
    assert said == ["preference", None, by]
    assert found.field(f"{LOSS}/chosen_nll") == nll
    assert found.field("/training/micro_batch_size") == 4, "both samples of each pair"
    assert not found.bounded | found.unsupported


LORA_OF_AXOLOTL = "\nadapter: lora\nlora_r: 8\nlora_target_linear: true"
WITH_ITS_COPY = f"{LORA_OF_AXOLOTL}\nrl_adapter_ref_model: true"


@pytest.mark.parametrize(
    ("more", "nll"),
    [
        ("rl: orpo", True),
        (f"rl: simpo{LORA_OF_AXOLOTL}", True),
        (f"rl: simpo\ncpo_alpha: 0{LORA_OF_AXOLOTL}", None),
    ],
)
def test_axolotls_are_trls(more: str, nll: bool | None) -> None:
    found = read(launch_of({"a.yaml": AXOLOTLS + more}, overrides=GPUS))
    assert found.field(f"{LOSS}/log_probs_by") == "trl-orpo-0.15"
    assert found.field(f"{LOSS}/chosen_nll") == nll
    assert found.field("/training/micro_batch_size") == 4
    assert "rl" not in found.bounded | found.unsupported


@pytest.mark.parametrize("more", ["rl: simpo", f"rl: kto{WITH_ITS_COPY}"])
def test_axolotl_loads_a_copy_that_nothing_runs(more: str) -> None:
    (told,) = read(launch_of({"a.yaml": AXOLOTLS + more}, overrides=GPUS)).account.bounded
    assert (told.key, told.direction) == ("rl", "raises")
    assert [(each.pointer, each.value) for each in told.within] == [(f"{LOSS}/reference", "copy")]


def test_axolotls_kto() -> None:
    found = read(launch_of({"a.yaml": f"{AXOLOTLS}rl: kto{LORA_OF_AXOLOTL}"}, overrides=GPUS))
    said = [found.field(f"{LOSS}/{each}") for each in ("objective", "reference", "log_probs_by")]
    assert said == ["preference", "base", "trl-kto-1.8"]
    assert found.field("/training/micro_batch_size") == 2, "samples, no pairs"
    assert "rl" not in found.bounded | found.unsupported
    whole = read(launch_of({"a.yaml": f"{AXOLOTLS}rl: kto"}, overrides=GPUS))
    assert whole.unsupported == {"rl"}, "beside two copies"


PEFT = "--use_peft --lora_r 8 --lora_target_modules all-linear"


@pytest.mark.parametrize(
    ("words", "release", "by", "reference"),
    [
        ("", "0.11.4", "trl-kto-0.9", "copy"),
        (PEFT, "0.15.2", "trl-kto-0.15", "copy"),
        ("", "0.24.0", "trl-kto-0.17", "copy"),
        ("--precompute_ref_log_probs", "1.6.0", "trl-kto-1.6", "copy"),
        (PEFT, "1.7.0", "trl-kto-1.7", "copy"),
        (PEFT, "1.8.0", "trl-kto-1.8", "base"),
        ("--precompute_ref_log_probs", "1.9.0", "trl-kto-1.9", None),
    ],
)
def test_ktos_script_loads_a_reference(
    words: str, release: str, by: str, reference: str | None
) -> None:
    argv = [*TRLS.format("kto").split(), *words.split()]
    overrides = {**GPUS, **ALIKE}
    found = read(launch_of(argv=argv, overrides=overrides, framework_version=f"trl=={release}"))
    said = [found.field(f"{LOSS}/{each}") for each in ("objective", "reference", "log_probs_by")]
    assert said == ["preference", reference, by]
    assert found.field("/training/micro_batch_size") == 2, "samples, no pairs"
    assert not found.bounded | found.unsupported


def asked(text: str, **overrides: Any) -> dict[str, Any]:
    return {"files": [{"path": "dpo.yaml", "content": text}], "overrides": {**GPUS, **overrides}}


def device(launch: dict[str, Any]) -> tuple[int, int, int]:
    size = estimate({"launch": launch}).binding.device_bytes
    return size.low, size.expected, size.high


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


def test_an_offload_to_nowhere_is_none() -> None:
    assert not with_zero(zero(3, offload_param={"device": "none", "pin_memory": True})).unsupported


def test_parameters_stay_on_the_card_below_stage_3() -> None:
    """As in the zero2 config of LlamaFamily/Llama-Chinese: the section is of stage 3 alone."""
    for stage, kept in ((1, None), (2, None), (3, True)):
        found = with_zero(zero(stage, offload_param={"device": "cpu", "pin_memory": True}))
        assert found.field("/framework/deepspeed/offload_param") is kept
        assert ("zero_optimization.offload_param.device" in found.irrelevant) is (kept is None)


def test_a_reference_model_of_which_a_part_is_on_the_host_is_not_modelled() -> None:
    found = with_zero(zero(3, offload_param={"device": "cpu"}))
    assert found.unsupported
    assert not found.bounded


@pytest.mark.parametrize(("level", "ranks"), [(2, 1), (3, 8)])
def test_a_copy_is_shared_out_as_the_policys_weights_are(level: int, ranks: int) -> None:
    def weights(more: str) -> int:
        files = [
            {"path": "dpo.yaml", "content": DPO + more + "deepspeed: ds.json\n"},
            {"path": "ds.json", "content": zero(level)},
        ]
        launch = {"files": files, "overrides": GPUS, "gpu": "H100-80GB"}
        (stage,) = estimate({"launch": launch}).stages
        return next(each.bytes for each in stage.components if each.name == "weights")

    # Llama-3.1-8B has 8.03 billion parameters, of which a whole copy in bf16 is 16 GB
    assert weights("") - weights(BEFORE) == pytest.approx(2 * 8_030_261_248 / ranks, abs=16)
