"""Whether a run trains adapters: by TRL's switch in TRL's scripts, by a synonym in others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

BASE = (
    "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1 --bf16 True "
    "--model_max_length 512"
)
LORA = {"lora_r", "lora_alpha", "lora_dropout"}
FLAGS = "--lora_r 64 --lora_alpha 16 --lora_dropout 0.1"
METHOD, RANK = "/training/peft/method", "/training/peft/r"


def run(script: str, flags: str, **overrides: Any) -> Read:
    argv = f"accelerate launch --num_processes 8 {script} {BASE} {flags}".split()
    return read(launch_of({}, argv, overrides=overrides))


@pytest.mark.parametrize(
    "script",
    ["sft.py", "trl/scripts/sft.py", "examples/scripts/dpo.py", "scripts/run_sft.py", "sft_vlm.py"],
)
def test_trls_scripts_have_no_adapters_without_their_switch(script: str) -> None:
    found = run(script, FLAGS)
    assert found.field(METHOD) is None
    assert not LORA & found.unsupported
    assert run(script, f"{FLAGS} --use_peft").field(RANK) == 64


def test_trls_command_has_none_either() -> None:
    argv = f"trl sft --num_processes 8 {BASE} {FLAGS}".split()
    found = read(launch_of({}, argv))
    assert found.field(METHOD) is None
    assert not found.unsupported


@pytest.mark.parametrize("script", ["train.py", "finetune.py", "my_sft.py", "llava/train/train.py"])
def test_of_another_script_it_is_not_known(script: str) -> None:
    found = run(script, FLAGS)
    assert found.unsupported == LORA
    assert "whether this script trains adapters" in found.account.unsupported[0].why
    assert not run(script, "").unsupported
    assert not run(script, f"{FLAGS} --use_peft False").unsupported
    peft = {"method": "lora", "r": 64, "target_modules": "all-linear"}
    assert not run(script, FLAGS, training={"peft": peft}).unsupported


def test_of_a_file_alone_it_is_not_known() -> None:
    text = "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 1\nlora_r: 64\n"
    eight = {"parallelism": {"num_gpus": 8}, "training": {"seq_length": 512}}
    assert read(launch_of({"a.yaml": text}, overrides=eight)).unsupported == {"lora_r"}


@pytest.mark.parametrize("switch", ["use_lora", "lora_enable"])
def test_a_synonym_switches_them_on_and_off(switch: str) -> None:
    targets = "--lora_target_modules q_proj v_proj"
    found = run("train.py", f"--{switch} True {FLAGS} {targets}")
    assert (found.field(METHOD), found.field(RANK)) == ("lora", 64)
    assert found.field("/training/peft/target_modules") == ["q_proj", "v_proj"]
    assert not found.unsupported
    ranked = run("train.py", f"--{switch} True --lora_rank 8 {targets}")
    assert ranked.field(RANK) == 8
    off = run("train.py", f"--{switch} False {FLAGS}")
    assert off.field(METHOD) is None
    assert not off.unsupported


def test_what_another_script_does_by_default_is_asked_for() -> None:
    with pytest.raises(LaunchError) as error:
        run("train.py", "--use_lora True")
    assert "the rank that this script gives adapters is not known" in str(error.value)
    assert "which modules this script adapts is not known" in str(error.value)


def test_a_synonym_is_none_of_trls() -> None:
    found = run("sft.py", f"--use_lora True {FLAGS}")
    assert found.field(METHOD) is None
    assert found.unsupported == {"use_lora"}
