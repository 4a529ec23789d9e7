"""Which units FSDP makes: of layers they are modelled, of anything else they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
QWEN = "Qwen/Qwen3-8B"
MOE = "Qwen/Qwen3-30B-A3B"
VISION = "Qwen/Qwen2.5-VL-7B-Instruct"
UNKNOWN = "some-one/else"
NAMES = {
    "accelerate": "fsdp_transformer_layer_cls_to_wrap",
    "trainer": "transformer_layer_cls_to_wrap",
    "flag": "fsdp_transformer_layer_cls_to_wrap",
}


def launched(
    model: str, *flags: str, files: dict[str, str] | None = None, config: str = ""
) -> Read:
    start = ["accelerate", "launch", *([f"--config_file={config}"] if config else []), *flags]
    command = [*start, "train.py", "--model_name_or_path", model, "--bf16", "True"]
    batch = ["--per_device_train_batch_size", "1", "--model_max_length", "512"]
    overrides = {"parallelism": {"num_gpus": 8}, "training": {"precision": "bf16"}}
    return read(launch_of(files or {}, [*command, *batch], overrides=overrides))


def by_accelerate(model: str, **keys: Any) -> Read:
    """accelerate's own YAML."""
    section = {f"fsdp_{key}": value for key, value in keys.items()}
    section.setdefault("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    config = {"distributed_type": "FSDP", "mixed_precision": "bf16", "fsdp_config": section}
    return launched(model, files={"a.yaml": yaml.safe_dump(config)}, config="a.yaml")


def by_flags(model: str, **keys: Any) -> Read:
    """Flags of accelerate launch."""
    given = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP"} | keys
    flags = [f"--fsdp_{key}={value}" for key, value in given.items()]
    return launched(model, "--use_fsdp", "--mixed_precision=bf16", *flags)


def by_trainer(model: str, **keys: Any) -> Read:
    """TrainingArguments' fsdp_config, in JSON."""
    config = {
        "model_name_or_path": model,
        "per_device_train_batch_size": 1,
        "model_max_length": 512,
        "bf16": True,
        "fsdp": "full_shard auto_wrap",
        "fsdp_config": keys,
    }
    overrides = {"parallelism": {"num_gpus": 8}, "training": {"precision": "bf16"}}
    return read(launch_of({"run.json": json.dumps(config)}, overrides=overrides))


every_way = pytest.mark.parametrize("way", [by_accelerate, by_flags, by_trainer])


def wrapped(found: Read) -> bool:
    """Whether the units are told to be others than layers."""
    return any("units" in each.why or "wrap" in each.why for each in found.account.unsupported)


@every_way
@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MIXTRAL, "MixtralDecoderLayer"),
        (QWEN, "Qwen3DecoderLayer"),
        (MOE, "Qwen3MoeDecoderLayer"),
        ("openai-community/gpt2", "GPT2Block"),
        (VISION, "Qwen2_5_VLDecoderLayer,Qwen2_5_VLVisionBlock"),
        (UNKNOWN, "SomeDecoderLayer"),
        (UNKNOWN, "MPTBlock"),
    ],
)
def test_layers_are_units(way: Any, model: str, classes: str) -> None:
    assert not wrapped(way(model, transformer_layer_cls_to_wrap=classes))


@every_way
@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (MIXTRAL, "MixtralSparseMoeBlock"),
        (MIXTRAL, "MixtralDecoderLayer,MixtralSparseMoeBlock"),
        (MIXTRAL, "MixtralAttention"),
        (QWEN, "LlamaDecoderLayer"),
        (QWEN, "Qwen3MLP"),
        (QWEN, "Qwen3DecoderLayer,Embedding"),
        (MOE, "Qwen3MoeSparseMoeBlock"),
        (VISION, "Qwen2_5_VLVisionBlock"),
        (QWEN, "Qwen3DecoderLayer,Qwen2_5_VLVisionBlock"),
        (UNKNOWN, "SomeSparseMoeBlock"),
        (UNKNOWN, "SomeMLP"),
    ],
)
def test_parts_of_layers_and_layers_of_others_are_not(way: Any, model: str, classes: str) -> None:
    found = way(model, transformer_layer_cls_to_wrap=classes)
    assert wrapped(found)
    missing = classes.rpartition(",")[2]
    assert any(missing in each.why for each in found.account.unsupported)


@every_way
@pytest.mark.parametrize("policy", ["SIZE_BASED_WRAP", "NO_WRAP"])
def test_units_of_a_size_and_of_the_whole_are_told(way: Any, policy: str) -> None:
    assert wrapped(way(QWEN, auto_wrap_policy=policy, min_num_params=100000000))


def test_a_size_counts_where_no_policy_does() -> None:
    assert wrapped(by_trainer(QWEN, min_num_params=100000000))
    assert not wrapped(by_trainer(QWEN, min_num_params=0))
    assert not by_flags(QWEN, min_num_params=100000000).unsupported


def test_a_key_of_fsdp_config_that_no_list_has_is_told() -> None:
    assert by_trainer(QWEN, ignored_modules="lm_head").unsupported == {
        "fsdp_config.ignored_modules"
    }
    assert not by_trainer(QWEN, fsdp_use_orig_params=True, limit_all_gathers=True).unsupported


@pytest.mark.parametrize(("version", "reshard"), [(None, False), (2, False), (1, False)])
def test_what_is_gathered_stays_by_either_version(version: int | None, *, reshard: bool) -> None:
    keys = {} if version is None else {"version": version}
    config = {
        "model_name_or_path": QWEN,
        "per_device_train_batch_size": 1,
        "model_max_length": 512,
        "bf16": True,
        "fsdp": "shard_grad_op auto_wrap",
        "fsdp_config": keys,
    }
    launch = launch_of({"run.json": json.dumps(config)}, overrides={"parallelism": {"num_gpus": 8}})
    assert read(launch).field("/framework/reshard_after_forward") is reshard


def test_a_strategy_of_fsdp1_alone_is_refused_of_fsdp2() -> None:
    config = {
        "model_name_or_path": QWEN,
        "per_device_train_batch_size": 1,
        "model_max_length": 512,
        "fsdp": "hybrid_shard auto_wrap",
    }
    launch = launch_of({"run.json": json.dumps(config)}, overrides={"parallelism": {"num_gpus": 8}})
    with pytest.raises(LaunchError, match="hybrid_shard goes with FSDP1"):
        read(launch)
