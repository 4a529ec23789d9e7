"""Each key of a launch of every format that decides memory, taken out and renamed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.launch.launches import launch_of
from tests.launch.mutations import check_every_key
from trainfit.specs.launch import Launch

AUTOMODEL = """
step_scheduler:
  global_batch_size: 32
  local_batch_size: 4
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
  torch_dtype: bf16
distributed:
  strategy: fsdp2
  dp_size: 4
  tp_size: 2
  cp_size: 1
  sequence_parallel: true
  activation_checkpointing: true
peft:
  _target_: nemo_automodel.components._peft.lora.PeftConfig
  target_modules: "*_proj"
  dim: 8
loss_fn:
  _target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy
packed_sequence:
  packed_sequence_size: 2048
optimizer:
  _target_: torch.optim.Adam
  lr: 1.0e-5
"""
LITGPT = """
checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B
precision: bf16-true
devices: 1
num_nodes: 1
quantize: bnb.nf4
lora_r: 32
lora_dropout: 0.1
lora_query: true
lora_key: false
lora_value: true
lora_projection: true
lora_mlp: true
lora_head: false
train:
  global_batch_size: 64
  micro_batch_size: 4
  max_seq_length: 512
"""
NEOX = """
{
  "pipe_parallel_size": 2,
  "model_parallel_size": 2,
  "make_vocab_size_divisible_by": 1,
  "num_layers": 32,
  "hidden_size": 4096,
  "intermediate_size": 32768,
  "num_attention_heads": 32,
  "num_kv_heads": 8,
  "seq_length": 4096,
  "max_position_embeddings": 4096,
  "pos_emb": "rotary",
  "no_weight_tying": true,
  "norm": "rmsnorm",
  "activation": "swiglu",
  "use_bias_in_attn_linear": false,
  "use_bias_in_mlp": false,
  "attention_config": [[["flash"], 32]],
  "checkpoint_activations": true,
  "checkpoint_num_layers": 1,
  "precision": "bfloat16",
  "optimizer": {"type": "Adam", "params": {"lr": 0.0003}},
  "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000},
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "tokenizer_type": "GPT2BPETokenizer"
}
"""
AXOLOTL = """
base_model: NousResearch/Meta-Llama-3-8B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_dropout: 0.05
lora_target_modules: [q_proj, v_proj]
lora_modules_to_save: [lm_head]
sequence_len: 4096
sample_packing: true
flash_attention: true
micro_batch_size: 2
gradient_accumulation_steps: 4
gradient_checkpointing: true
optimizer: paged_adamw_8bit
bf16: auto
"""
LLAMA_FACTORY = """
model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
finetuning_type: lora
lora_rank: 16
lora_target: q_proj,v_proj
lora_dropout: 0.1
additional_target: lm_head
quantization_bit: 4
double_quantization: false
template: llama3
cutoff_len: 1024
flash_attn: fa2
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
optim: adamw_torch
bf16: true
"""
SLIME = (
    "python3 train_async.py --hf-checkpoint /models/m --actor-num-nodes 2 "
    "--actor-num-gpus-per-node 8 --tensor-model-parallel-size 2 --context-parallel-size 2 "
    "--sequence-parallel --use-dynamic-batch-size --max-tokens-per-gpu 9216 --swiglu "
    "--num-layers 36 --hidden-size 2560 --ffn-hidden-size 9728 --num-attention-heads 32 "
    "--group-query-attention --num-query-groups 8 --disable-bias-linear --normalization RMSNorm "
    "--kv-channels 128 --qk-layernorm --vocab-size 151936 --global-batch-size 128 "
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
)
SWIFT = (
    "megatron sft --model Qwen/Qwen2.5-7B --max_length 2048 --tensor_model_parallel_size 2 "
    "--sequence_parallel true --micro_batch_size 16 --global_batch_size 64 "
    "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
    "--use_distributed_optimizer false"
)
VERL_SFT = (
    "python3 -m verl.trainer.sft_trainer "
    "model.path=Qwen/Qwen3-8B data.train_files=a engine=fsdp data.max_token_len_per_gpu=8192 "
    "engine.ulysses_sequence_parallel_size=2 model.lora_rank=8 model.target_modules=all-linear"
)


class Case(NamedTuple):
    """A launch, and how many of its keys decide at least."""

    launch: Launch
    deciding: int


GPUS: dict[str, Any] = {"parallelism": {"num_gpus": 8}}
CASES = {
    "NeMo AutoModel": Case(launch_of({"a.yaml": AUTOMODEL}), 10),
    "litgpt": Case(launch_of({"a.yaml": LITGPT}), 10),
    "GPT-NeoX": Case(launch_of({"a.yml": NEOX}, overrides=GPUS), 18),
    "axolotl": Case(launch_of({"a.yaml": AXOLOTL}, overrides=GPUS), 12),
    "LLaMA-Factory": Case(launch_of({"a.yaml": LLAMA_FACTORY}, overrides=GPUS), 12),
    "slime": Case(launch_of(argv=SLIME.split()), 18),
    "ms-swift": Case(launch_of(argv=SWIFT.split(), overrides=GPUS), 9),
    "verl, on samples": Case(launch_of(argv=VERL_SFT.split(), overrides=GPUS), 4),
}


@pytest.mark.parametrize("name", CASES)
def test_no_key_goes_unnoticed(name: str) -> None:
    case = CASES[name]
    assert check_every_key(case.launch) >= case.deciding
