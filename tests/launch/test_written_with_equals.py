"""What is not known of a word is not known of the value that is written on to its option."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of, read
from trainfit.launch.errors import LaunchError

TRL = "accelerate launch --num_processes 8 sft.py --model_name_or_path Qwen/Qwen3-8B --packing "
MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --seq-length "
    "2048 --num-attention-heads 16 --max-position-embeddings 2048 --vocab-size 50257 --bf16 "
)
TUNE = "full_finetune_distributed --config c.yaml"
TUNED = """
model: {_component_: torchtune.models.llama3_1.llama3_1_8b}
tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 2048}
optimizer: {_component_: torch.optim.AdamW, fused: true}
loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
batch_size: 1
dtype: bf16
"""
COMMANDS = {
    "an argument of TRL": f"{TRL} --per_device_train_batch_size{{}}$X",
    "a switch of TRL": f"{TRL} --per_device_train_batch_size 1 --gradient_checkpointing{{}}$X",
    "the rank of adapters": f"{TRL} --per_device_train_batch_size 1 --use_peft --lora_r{{}}$X",
    "an option of Megatron-LM": f"{MEGATRON} --micro-batch-size{{}}$X",
    "processes of torchtune": f"tune run --nproc_per_node{{}}$X {TUNE}",
    "LLaMA-Factory": (
        "llamafactory-cli train --model_name_or_path Qwen/Qwen3-8B --stage sft --finetuning_type "
        "lora --bf16 --cutoff_len{}$X"
    ),
}


@pytest.mark.parametrize("between", [" ", "="])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_that_is_not_known_is_asked_for(name: str, between: str) -> None:
    script = COMMANDS[name].format(between)
    with pytest.raises(LaunchError, match="X is not set; give it in env"):
        read(launch_of({"run.sh": script, "c.yaml": TUNED}))
