"""litgpt's configs and commands: jobs derived by hand from its source."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of
from tests.launch.launches import read as read_files
from trainfit.launch.errors import LaunchError

FULL = """
checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B
out_dir: out
precision: bf16-true
devices: 4
num_nodes: 1
data: {class_path: litgpt.data.Alpaca2k, init_args: {mask_prompt: false}}
train: {global_batch_size: 64, micro_batch_size: 4, max_seq_length: 512, epochs: 1}
eval: {interval: 25}
optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.0002}}
"""
LORA = FULL.replace("devices: 4", "devices: 1\nlora_r: 32\nlora_dropout: 0.1")


def read(text: str) -> Read:
    return read_files(launch_of({"config.yaml": text}))


def test_full_finetuning_shares_out_and_makes_layers_again() -> None:
    found = read(FULL)
    assert found.fields() == {
        "/model": {"hf_id": "meta-llama/Meta-Llama-3-8B"},
        "/framework/name": "transformers",
        # devices * num_nodes > 1: FSDPStrategy of Block, with their checkpointing
        "/framework/data_parallel_engine": "fsdp1",
        "/parallelism/num_gpus": 4,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/recompute/granularity": "full",
        "/training/attention/repeats_kv": True,
        "/training/micro_batch_size": 4,
        "/training/global_batch_size": 64,
        "/training/seq_length": 512,
        "/training/precision": "bf16-pure",
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "foreach",
    }
    assert found.left_out == {"chunked_cross_entropy"}


def test_one_device_has_a_strategy_of_its_own() -> None:
    found = read(FULL.replace("devices: 4", "devices: 1"))
    assert found.field("/framework/data_parallel_engine") == "ddp"
    assert found.field("/training/recompute") is None


def test_adapters_have_litgpts_defaults() -> None:
    found = read(LORA)
    peft = {name: value for name, value in found.fields().items() if "/peft/" in name}
    assert peft == {
        "/training/peft/method": "lora",
        "/training/peft/r": 32,
        "/training/peft/dropout": 0.1,
        # lora_query and lora_value are on by default
        "/training/peft/target_modules": ["q_proj", "v_proj"],
        "/training/peft/adapter_dtype": "bf16",
    }
    more = read(f"{LORA}lora_mlp: true\nlora_query: false\nlora_head: true\n")
    assert more.field("/training/peft/target_modules") == [
        "v_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
        "lm_head",
    ]


@pytest.mark.parametrize(("name", "double"), [("bnb.nf4", False), ("bnb.nf4-dq", True)])
def test_quantised_weights_have_a_paged_optimizer(name: str, double: bool) -> None:
    found = read(f"{LORA}quantize: {name}\n")
    assert found.field("/training/peft/quantization") == "nf4"
    assert found.field("/training/peft/double_quantization") is double
    assert found.field("/training/optimizer/paged") is True


def test_a_command_says_over_the_file_what_counts() -> None:
    words = (
        "litgpt finetune_full --config c.yaml Qwen/Qwen2.5-7B --devices 8 "
        "--train.max_seq_length 1024"
    )
    found = read_files(launch_of({"c.yaml": FULL}, words.split()))
    assert found.field("/model/hf_id") == "Qwen/Qwen2.5-7B"
    assert found.field("/parallelism/num_gpus") == 8
    assert found.field("/training/seq_length") == 1024


@pytest.mark.parametrize(
    ("more", "kernel"),
    [("fused: true", "fused"), ("foreach: false", "for-loop"), ("eps: 1", "foreach")],
)
def test_the_optimizers_arguments_choose_its_kernel(more: str, kernel: str) -> None:
    found = read(FULL.replace("lr: 0.0002", f"lr: 0.0002, {more}"))
    assert found.field("/training/optimizer/implementation") == kernel
    assert not found.unsupported


def test_what_is_not_modelled_is_told() -> None:
    assert "quantize" in read(f"{LORA}quantize: bnb.int8-training\n").unsupported
    assert "optimizer.class_path" in read(FULL.replace("AdamW", "SGD")).unsupported
    assert "some_key" in read(f"{FULL}some_key: 1\n").unsupported
    third = read(FULL.replace("lr: 0.0002", "lr: 0.0002, amsgrad: true"))
    assert third.unsupported == {"optimizer.init_args.amsgrad"}
    with pytest.raises(LaunchError, match="of precisions"):
        read(FULL.replace("bf16-true", "16-true"))
    with pytest.raises(LaunchError, match="give /training/seq_length in overrides"):
        read(FULL.replace("max_seq_length: 512, ", ""))
