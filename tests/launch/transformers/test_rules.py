"""Keys that decide together, and which of two sources counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.transformers.releases import named_releases

QWEN = "Qwen/Qwen3-8B"
BASE = {
    "model_name_or_path": QWEN,
    "per_device_train_batch_size": 2,
    "model_max_length": 2048,
    "dtype": "bfloat16",
}
LAUNCHED = ("accelerate", "launch", "--num_processes", "8")
PRECISION = "/training/precision"
ENGINE = "/framework/data_parallel_engine"
SHARDING = "/parallelism/data_parallel_sharding_strategy"


def words(keys: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for key, value in keys.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        flags += [f"--{key}", text]
    return flags


def run(
    *start: str, files: dict[str, Any] | None = None, version: str | None = None, **keys: Any
) -> Read:
    contents = {path: json.dumps(value) for path, value in (files or {}).items()}
    command = [*(start or LAUNCHED), "train.py", *words(BASE | keys)]
    return read(launch_of(contents, command, framework_version=version))


def refused(*start: str, **keys: Any) -> str:
    with pytest.raises(LaunchError) as error:
        run(*start, **keys)
    return str(error.value)


@pytest.mark.parametrize(
    ("keys", "precision"),
    [
        ({"bf16": True}, "bf16-pure"),
        ({"bf16": True, "dtype": "float32"}, "autocast-bf16"),
        ({"dtype": "auto", "bf16": True}, "bf16-pure"),
        ({"dtype": "float32"}, "fp32"),
        ({"bf16": True, "fsdp": "full_shard auto_wrap"}, "bf16"),
        ({"fsdp": "full_shard auto_wrap"}, "bf16-pure"),
    ],
)
def test_weights_and_arithmetic_decide_the_precision_together(
    keys: dict[str, Any], precision: str
) -> None:
    assert run(**keys).field(PRECISION) == precision


@pytest.mark.parametrize(
    ("keys", "precision", "base"),
    [
        ({"bf16": True}, "autocast-bf16", "bf16"),
        ({"bf16": True, "dtype": "float32"}, "autocast-bf16", "fp32"),
        ({"bf16": True, "fsdp": "full_shard auto_wrap"}, "bf16", "bf16"),
        ({}, "bf16-pure", None),
    ],
)
def test_mixed_precision_finds_a_base_below_adapters_as_it_was_loaded(
    keys: dict[str, Any], precision: str, base: str | None
) -> None:
    found = run(use_peft=True, lora_target_modules="all-linear", **keys)
    assert found.field(PRECISION) == precision
    assert found.fields().get("/training/peft/base_dtype") == base


@pytest.mark.parametrize(
    ("script", "release", "bits", "base"),
    [
        ("sft", "0.25.1", 4, "fp32-norms"),
        ("sft", "0.25.1", 8, None),
        ("dpo", "0.25.1", 4, "fp32-norms"),
        ("reward_modeling", "0.25.1", 4, None),
        ("sft", "0.26.0", 4, "bf16"),
    ],
)
def test_trl_once_widened_what_is_not_quantised(
    script: str, release: str, bits: int, base: str | None
) -> None:
    """And made embedding and head beside 4 bits narrow again: peft_module_casting_to_bf16."""
    keys = BASE | {"bf16": True, "use_peft": True, f"load_in_{bits}bit": True}
    command = [*LAUNCHED, f"{script}.py", *words(keys | {"lora_target_modules": "all-linear"})]
    found = read(launch_of({}, command, framework_version=f"trl=={release}"))
    assert found.fields().get("/training/peft/base_dtype") == base


@pytest.mark.parametrize(("release", "loss"), [("1.6.0", None), ("1.7.0", "chunked_nll")])
def test_trls_loss_is_in_chunks_unless_told_otherwise(release: str, loss: str | None) -> None:
    command = [*LAUNCHED, "sft.py", *words(BASE | {"bf16": True})]
    found = read(launch_of({}, command, framework_version=f"trl=={release}"))
    assert found.fields().get("/training/loss/cross_entropy") == loss


def test_fp16_is_told_type_by_type() -> None:
    found = run(fp16=True, dtype="float32").field(PRECISION)
    assert found == {
        "params": "fp32",
        "compute": "fp16",
        "gradients": "fp32",
        "main_params": "fp32",
    }


def test_the_type_of_a_checkpoint_that_is_not_known_is_asked_for() -> None:
    words_of_it = refused(model_name_or_path="some-one/else", dtype="auto", bf16=True)
    assert "give /training/precision in overrides" in words_of_it


@pytest.mark.parametrize(
    ("version", "implementation", "engine"),
    [("4.40.2", "foreach", "fsdp1"), ("5.23.0", "fused", "fsdp2"), (None, "fused", "fsdp2")],
)
def test_defaults_are_those_of_the_release(
    version: str | None, implementation: str, engine: str
) -> None:
    found = run(version=version, fsdp="full_shard auto_wrap")
    assert found.field("/training/optimizer/implementation") == implementation
    assert found.field(ENGINE) == engine


@pytest.mark.parametrize(
    ("strategy", "sharding", "reshard", "replicas"),
    [
        ("FULL_SHARD", "optim_grads_params", None, None),
        ("1", "optim_grads_params", None, None),
        ("SHARD_GRAD_OP", "optim_grads_params", False, None),
        ("NO_SHARD", "no_shard", None, None),
        ("HYBRID_SHARD", "optim_grads_params", None, 2),
        ("HYBRID_SHARD_ZERO2", "optim_grads_params", False, 2),
    ],
)
def test_strategies_of_fsdp(
    strategy: str, sharding: str, reshard: bool | None, replicas: int | None
) -> None:
    config = {
        "distributed_type": "FSDP",
        "num_machines": 2,
        "num_processes": 16,
        "fsdp_config": {
            "fsdp_sharding_strategy": strategy,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        },
    }
    start = ("accelerate", "launch", "--config_file", "fsdp.json")
    found = run(*start, files={"fsdp.json": config}, bf16=True)
    assert found.field(SHARDING) == sharding
    assert found.field("/framework/reshard_after_forward") == reshard
    assert found.field("/parallelism/data_parallel_replicate_size") == replicas


def test_a_flag_of_the_launcher_counts_before_its_config() -> None:
    config = {"distributed_type": "MULTI_GPU", "num_processes": 4, "mixed_precision": "no"}
    start = ("accelerate", "launch", "--config_file", "a.json", "--num_processes", "16")
    found = run(*start, files={"a.json": config}, bf16=True)
    assert found.field("/parallelism/num_gpus") == 16


def test_the_command_line_counts_before_a_file() -> None:
    command = ["sft.py", "--config", "run.json", "--max_length", "512"]
    content = json.dumps(BASE | {"max_length": 4096, "per_device_train_batch_size": 3})
    found = read(launch_of({"run.json": content}, command))
    assert found.field("/training/seq_length") == 512
    assert found.field("/training/micro_batch_size") == 3


@pytest.mark.parametrize(
    ("given", "size", "steps"),
    [
        ({"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}, 2, 4),
        ({"train_batch_size": "auto"}, 2, 4),
        ({"train_batch_size": 64}, 2, 4),
    ],
)
def test_deepspeeds_batch_agrees_with_the_arguments(
    given: dict[str, Any], size: int, steps: int
) -> None:
    config = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}} | given
    found = run(
        *("deepspeed", "--num_gpus", "8"),
        files={"ds.json": config},
        deepspeed="ds.json",
        gradient_accumulation_steps=4,
    )
    assert found.field("/training/micro_batch_size") == size
    assert found.field("/training/num_microbatches") == steps


@pytest.mark.parametrize("given", [{"train_batch_size": 63}, {"train_micro_batch_size_per_gpu": 5}])
def test_a_batch_that_differs_is_complained_of(given: dict[str, Any]) -> None:
    config = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}} | given
    message = refused(
        *("deepspeed", "--num_gpus", "8"),
        files={"ds.json": config},
        deepspeed="ds.json",
        gradient_accumulation_steps=4,
    )
    assert next(iter(given)) in message


@pytest.mark.parametrize(
    ("ratio", "unsupported"),
    [(1.0, set()), (0.4, {"deepspeed.zero_optimization.offload_optimizer.ratio"})],
)
def test_what_waits_on_the_host_does_so_as_a_whole(ratio: float, unsupported: set[str]) -> None:
    offload = {"device": "cpu", "pin_memory": True, "ratio": ratio}
    config = {"zero_optimization": {"stage": 2, "offload_optimizer": offload}}
    found = run("deepspeed", "--num_gpus", "8", deepspeed=config, bf16=True)
    assert found.field("/framework/deepspeed/offload_optimizer") is True
    assert found.left_out == unsupported


def test_ranks_that_share_linears_share_a_batch() -> None:
    config = {"train_batch_size": 16, "tensor_parallel": {"autotp_size": 4}}
    found = run("deepspeed", "--num_gpus", "8", deepspeed=config, bf16=True)
    assert found.field("/parallelism/tp") == 4
    assert found.field("/training/num_microbatches") == 4
    assert not found.unsupported


@pytest.mark.parametrize(
    ("given", "unsupported"),
    [
        ({"autotp_size": 1}, set()),
        ({"autotp_size": 2, "tp_overlap_comm": True}, set()),
        ({"autotp_size": 2, "preset_model": "llama"}, {"deepspeed.tensor_parallel.preset_model"}),
    ],
)
def test_keys_of_deepspeeds_tensor_parallelism(
    given: dict[str, Any], unsupported: set[str]
) -> None:
    config = {"zero_optimization": {"stage": 1}, "tensor_parallel": given}
    found = run("deepspeed", "--num_gpus", "8", deepspeed=config, bf16=True)
    assert found.unsupported == unsupported


def test_deepspeed_within_the_arguments() -> None:
    config = {"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    found = run("deepspeed", "--num_gpus", "8", deepspeed=config, bf16=True)
    assert found.field(SHARDING) == "optim_grads_params"
    assert found.field("/framework/deepspeed/reduce_bucket_size") == "auto"
    assert found.field(PRECISION) == "bf16"
    assert not found.unsupported


@pytest.mark.parametrize(
    ("keys", "bounded"),
    [
        ({"eval_strategy": "steps"}, "eval_strategy"),
        ({"eval_strategy": "epoch", "per_device_eval_batch_size": 4}, "per_device_eval_batch_size"),
        ({"eval_strategy": "epoch", "per_device_eval_batch_size": 2}, None),
        ({"eval_strategy": "no", "per_device_eval_batch_size": 64}, None),
    ],
)
def test_evaluation_on_a_larger_batch_is_bounded(keys: dict[str, Any], bounded: str | None) -> None:
    found = run(**keys)
    assert found.bounded == ({bounded} if bounded else set())
    assert not found.unsupported


@pytest.mark.parametrize(
    ("optim", "name", "paged", "moments"),
    [
        ("adamw_torch", "adam", None, None),
        ("paged_adamw_32bit", "adam", True, "fp32"),
        ("adamw_bnb_8bit", "adamw8bit", None, None),
        ("lion_8bit", "lion8bit", None, None),
        ("lion_32bit", "lion", None, "fp32"),
        ("adafactor", "adafactor", None, None),
    ],
)
def test_optimizers(optim: str, name: str, paged: bool | None, moments: str | None) -> None:
    found = run(optim=optim)
    assert found.field("/training/optimizer/name") == name
    assert found.field("/training/optimizer/paged") == paged
    assert found.field("/training/optimizer/exp_avg_dtype") == moments


@pytest.mark.parametrize("optim", ["galore_adamw", "lomo", "ademamix", "rmsprop"])
def test_other_optimizers_are_not_modelled(optim: str) -> None:
    assert run(optim=optim).unsupported == {"optim"}


@pytest.mark.parametrize(
    ("env", "count"),
    [
        ({"WORLD_SIZE": "16"}, 16),
        ({"NPROC_PER_NODE": "8", "NNODES": "2"}, 16),
        ({"NPROC_PER_NODE": "4"}, 4),
        ({}, 1),
    ],
)
def test_gpus_that_the_environment_tells(env: dict[str, str], count: int) -> None:
    found = read(launch_of(argv=["python", "train.py", *words(BASE)], env=env))
    assert found.field("/parallelism/num_gpus") == count


def test_segments_of_the_allocator() -> None:
    command = ["python", "train.py", *words(BASE)]
    env = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    found = read(launch_of(argv=command, env=env))
    assert found.field("/framework/expandable_segments") is True


def test_a_path_is_the_config_that_was_sent_from_there() -> None:
    config = {"model_type": "qwen3", "hidden_size": 64, "torch_dtype": "bfloat16"}
    found = run(
        files={"models/qwen/config.json": config}, model_name_or_path="/data/models/qwen", bf16=True
    )
    assert found.field("/model/hf_config") == config


def test_a_path_without_its_config_is_asked_for() -> None:
    message = refused(model_name_or_path="/data/models/qwen", bf16=True)
    assert "send /data/models/qwen/config.json, or give /model in overrides" in message


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ({"model_max_length": ""}, "how long a sample is"),
        ({"per_device_train_batch_size": "many"}, "is no number of samples"),
        ({"bf16": "perhaps"}, "is neither true nor false"),
        ({"dtype": "int3"}, "is no data type of weights"),
        ({"deepspeed": "missing.json"}, "send that file too"),
    ],
)
def test_what_is_wrong_is_said_at_its_key(keys: dict[str, Any], asked: str) -> None:
    assert asked in refused(**keys)


@pytest.mark.parametrize("script", ["grpo.py", "ppo.py", "prm.py"])
def test_other_loops_are_refused_by_one_key(script: str) -> None:
    command = [*LAUNCHED, script, *words(BASE | {"max_length": 1024, "bf16": True})]
    found = read(launch_of(argv=command))
    assert len(found.unsupported) >= 1
    assert any(script.startswith(key) for key in found.unsupported)


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("4.57.1", {"transformers": (4, 57, 1)}),
        ("v5.0.0", {"transformers": (5, 0, 0)}),
        ("transformers==4.40.2 trl==0.9.6", {"transformers": (4, 40, 2), "trl": (0, 9, 6)}),
        ("transformers==4.40.2,trl==0.9.6", {"transformers": (4, 40, 2), "trl": (0, 9, 6)}),
        ("trl-v0.24.0", {"trl": (0, 24, 0)}),
        ("torch 2.7.1+cu128", {"torch": (2, 7, 1)}),
        ("4.57.0.dev0", {"transformers": (4, 57, 0)}),
        ("main", {}),
        (None, {}),
    ],
)
def test_releases(version: str | None, named: dict[str, tuple[int, ...]]) -> None:
    assert named_releases(version) == named


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("4.28.0", "transformers 4.28.0 is too old; known since 4.36"),
        ("transformers==4.48.1 trl==0.8.6", "trl 0.8.6 is too old; known since 0.9"),
        ("the one of May", "'the' names no release; say transformers==4.57.1 trl==0.24.0"),
        ("trl>=0.9", "'trl>=0.9' names no release"),
    ],
)
def test_a_release_before_those_that_are_known_is_refused(version: str, why: str) -> None:
    with pytest.raises(LaunchError, match=f"framework_version: {re.escape(why)}"):
        named_releases(version)


@pytest.mark.parametrize(
    ("version", "key", "known"),
    [
        ("4.40.2", "evaluation_strategy", True),
        ("5.0.0", "evaluation_strategy", False),
        ("4.40.2", "use_liger_kernel", False),
        ("4.57.1", "use_liger_kernel", True),
        ("5.23.0", "overwrite_output_dir", False),
        (None, "overwrite_output_dir", True),
    ],
)
def test_a_key_that_a_release_does_not_have(version: str | None, key: str, known: bool) -> None:
    keys: dict[str, Any] = {key: "no" if "strategy" in key else "False"}
    found = run(version=version, **keys)
    assert (key not in found.unsupported) == known


def test_trls_own_command_hands_its_number_of_processes_to_accelerate() -> None:
    command = ["trl", "sft", *words(BASE | {"num_processes": 8, "accelerate_config": "zero3"})]
    found = read(launch_of(argv=command))
    assert found.field("/parallelism/num_gpus") == 8
    assert found.unsupported == {"accelerate_config"}


def test_a_loop_of_deepspeed_chat_is_told_of_by_what_its_script_makes_of_it() -> None:
    """The stage goes into a config that its main.py writes; its own adapters are not modelled."""
    command = (
        "deepspeed --num_gpus 8 main.py --data_path Dahoas/rm-static --data_split 2,4,4 "
        "--model_name_or_path facebook/opt-1.3b --per_device_train_batch_size 8 --max_seq_len 512 "
        "--num_warmup_steps 0 --zero_stage 2 --lora_dim 128 --deepspeed --output_dir out"
    )
    found = read(launch_of(argv=command.split()))
    assert found.field("/training/seq_length") == 512
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim_grads"
    assert found.bounded == {"lora_dim"}
    assert {"data_path", "data_split", "num_warmup_steps"} <= found.irrelevant
