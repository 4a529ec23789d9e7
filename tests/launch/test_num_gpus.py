"""The number of GPUs, told beside launches of every framework that do not say it themselves."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read

ZERO_2 = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}'
SFT = "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1 --max_length 2048 --bf16"
LAUNCHES = {
    "axolotl": {
        "a.yaml": "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\ngradient_accumulation_steps: 1\n"
        "sequence_len: 2048\nbf16: true\noptimizer: adamw_torch_fused\n"
    },
    "llama_factory": {
        "l.yaml": "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\n"
        "deepspeed: ds.json\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n",
        "ds.json": ZERO_2,
    },
    "accelerate": {
        "run.sh": f"accelerate launch --config_file acc.yaml sft.py {SFT}\n",
        "acc.yaml": "distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n"
        "  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n",
    },
    "deepspeed": {"run.sh": f"deepspeed sft.py --deepspeed ds.json {SFT}\n", "ds.json": ZERO_2},
    "torchtune": {
        "t.yaml": "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
        "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n"
        "  max_seq_len: 2048\noptimizer:\n  _component_: torch.optim.AdamW\n  fused: true\n"
        "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
        "batch_size: 2\ncompile: true\ndtype: bf16\n"
    },
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_it_is_taken(name: str) -> None:
    found = read(launch_of(LAUNCHES[name], overrides={"parallelism": {"num_gpus": 16}}))
    assert found.field("/parallelism/num_gpus") == 16
