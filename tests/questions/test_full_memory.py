"""Errors of a full memory as people have reported them, put beside their launches: what the card
held is told, and what would have filled it or would make it fit. Of a launch what its author said
stands here; what nobody said is as its framework has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.measurements.reported import ERRORS
from trainfit.questions.python import fit_check, reconcile

GIB = 2**30
MIXTRAL = """base_model: mistralai/Mixtral-8x7B-v0.1
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
sequence_len: 4096
sample_packing: true
micro_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
flash_attention: true
gradient_checkpointing: true
optimizer: adamw_bnb_8bit
"""
LLAMA_70B = """base_model: meta-llama/Meta-Llama-3-70B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
sequence_len: 512
micro_batch_size: 1
gradient_accumulation_steps: 1
bf16: auto
flash_attention: true
gradient_checkpointing: true
optimizer: adamw_torch
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
"""
GPT2_LARGE = (
    "torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 36 --hidden-size 1280 "
    "--num-attention-heads 20 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 "
    "--fp16 --micro-batch-size 8 --global-batch-size 64"
)
GPT2_2B = (
    "python -m torch.distributed.launch --nproc_per_node 8 --nnodes 8 pretrain_gpt2.py "
    "--model-parallel-size 2 --num-layers 54 --hidden-size 1920 --num-attention-heads 20 "
    "--seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 --fp16 --batch-size 8 "
    "--checkpoint-activations"
)
PROVER = (
    "accelerate launch --use_fsdp --num_processes 8 sft.py --model_name_or_path "
    "deepseek-ai/deepseek-llm-7b-base --use_peft --lora_r 8 --lora_target_modules q_proj v_proj "
    "--max_seq_length 1024 --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --bf16"
)
OF_MEGATRON = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB (GPU 0; 31.74 "
    "GiB total capacity; 28.82 GiB already allocated; 577.12 MiB free; 29.97 GiB reserved in total "
    "by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb"
)
OF_2020 = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.29 GiB (GPU 0; 31.72 GiB total "
    "capacity; 19.22 GiB already allocated; 1.88 GiB free; 28.32 GiB reserved in total by PyTorch)"
)
OF_TRL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 388.00 MiB. GPU 0 has a total "
    "capacity of 9.68 GiB of which 95.75 MiB is free. Including non-PyTorch memory, this process "
    "has 9.54 GiB memory in use. Of the allocated memory 6.61 GiB is allocated by PyTorch, and "
    "2.57 GiB is reserved by PyTorch but unallocated."
)


def reported(source: str) -> str:
    (text,) = [each.text for each in ERRORS if each.source.startswith(source)]
    return text


def yaml(content: str, num_gpus: int, gpu: Any) -> dict[str, Any]:
    return {
        "files": [{"path": "config.yml", "content": content}],
        "argv": "accelerate launch -m axolotl.cli.train config.yml",
        "gpu": gpu,
        "overrides": {"parallelism": {"num_gpus": num_gpus}},
    }


class Reported(NamedTuple):
    """A launch, its error, the GiB that it says were held, and what would explain it first; None
    where the job is expected not to fit, or hardly.
    """

    source: str
    launch: dict[str, Any]
    error: str
    held_gib: float
    explained_by: str | None


RUNS = [
    Reported(
        "NVIDIA/Megatron-LM#525",
        {"argv": GPT2_LARGE, "gpu": "V100-32GB"},
        OF_MEGATRON,
        29.97,
        None,
    ),
    Reported(
        "NVIDIA/Megatron-LM#60",
        {"argv": GPT2_2B, "gpu": "V100-32GB"},
        OF_2020,
        28.32,
        "nothing is recomputed",
    ),
    Reported(
        "axolotl-ai-cloud/axolotl#998",
        yaml(MIXTRAL, 2, {"memory_bytes": 24 * GIB}),
        reported("axolotl-ai-cloud/axolotl#998"),
        23.01 + 121.23 / 1024,
        None,
    ),
    Reported(
        "axolotl-ai-cloud/axolotl#1717",
        yaml(LLAMA_70B, 4, "RTX3090"),
        reported("axolotl-ai-cloud/axolotl#1717"),
        23.61,
        None,
    ),
    Reported(
        "huggingface/trl#3436",
        {"argv": PROVER, "gpu": {"memory_bytes": round(9.68 * GIB)}},
        OF_TRL,
        9.54,
        None,
    ),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.source)
def test_what_filled_a_card_is_told_and_what_would_make_it_fit(run: Reported) -> None:
    found = reconcile({"launch": run.launch}, run.error)
    (full,) = [each for each in found.findings if each.id == "out_of_memory"]
    assert full.bytes == pytest.approx(run.held_gib * GIB, rel=1e-4)
    assert found.unread == []
    assert all(each.at_least for each in found.comparisons)
    checked = fit_check({"launch": run.launch})
    if run.explained_by is None:
        assert checked.verdict != "fits"
        assert checked.suggestions or checked.verdict == "unknown"
    else:
        assert found.explanations[0].meaning == run.explained_by
