"""Megatron-Bridge's and NeMo's configs, and what Hydra's words say over them."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
TP, SEQUENCE = "/parallelism/tp", "/parallelism/sequence_parallel"
RECOMPUTE = "/training/recompute"
PEFT = "/training/peft"
GPUS = {"env": {"WORLD_SIZE": "32"}, "overrides": {"model": {"spec": {"vocab_size": 32000}}}}

RECIPE = Family(
    source="NVIDIA-NeMo/Megatron-Bridge 0.6: training/utils/omegaconf_utils.py "
    "(parse_hydra_overrides), recipes/llama/h100/llama3.py; Hydra 1.3 (OverrideLexer.g4)",
    command="torchrun --nproc_per_node 8 --nnodes 4 run_recipe.py "
    "--recipe llama3_8b_pretrain_config",
    given={"framework_version": "0.6.0"},
    rows={
        "train.micro_batch_size=2": {MICRO: 2},
        "++train.micro_batch_size=2": {MICRO: 2},
        "train.micro_batch_size=2 train.micro_batch_size=4": {MICRO: 4},
        "'train={micro_batch_size: 2}'": {MICRO: 2},
        "model.tensor_model_parallel_size=2": {TP: 2},
        "model.sequence_parallel=yes": Refused("must be true or false"),
        "model.sequence_parallel=0x1": Refused("must be true or false"),
        "model.tensor_model_parallel_size=2 model.sequence_parallel=TRUE": {TP: 2, SEQUENCE: True},
        "model.seq_length=4_096": {LENGTH: 4096},
        "model.recompute_granularity=selective": {f"{RECOMPUTE}/granularity": "selective"},
        "model.tensor_parallel_size=2": LeftOut("model.tensor_parallel_size"),
        "~model.seq_length": LeftOut("model.seq_length"),
        "peft=null": {},
        "--unknown 3": LeftOut("--unknown"),
    },
)
CONTAINER = Family(
    source="NVIDIA-NeMo/Megatron-Bridge 0.6: training/config.py (ConfigContainer.from_yaml); Hydra "
    "1.3",
    command="torchrun --nproc_per_node 8 --nnodes 4 run_recipe.py --config-file config.yaml",
    given=GPUS,
    config={
        "model._target_": "megatron.bridge.models.llama.llama_provider.LlamaModelProvider",
        "model.num_layers": "32",
        "model.hidden_size": "4096",
        "model.num_attention_heads": "32",
        "model.seq_length": "4096",
        "model.tensor_model_parallel_size": "2",
        "model.bf16": "true",
        "model.recompute_granularity": "full",
        "model.recompute_method": "uniform",
        "model.recompute_num_layers": "1",
        "train.micro_batch_size": "1",
        "train.global_batch_size": "128",
        "peft._target_": "megatron.bridge.peft.lora.LoRA",
        "peft.dim": "8",
        "peft.target_modules": "[linear_qkv]",
    },
    rows={
        "peft=null": {
            f"{PEFT}/method": None,
            f"{PEFT}/r": None,
            f"{PEFT}/dropout": None,
            f"{PEFT}/target_modules": None,
        },
        "peft.dim=16": {f"{PEFT}/r": 16},
        "model.recompute_granularity=null": {
            f"{RECOMPUTE}/granularity": None,
            f"{RECOMPUTE}/method": None,
            f"{RECOMPUTE}/num_layers": None,
        },
        said(model__tensor_model_parallel_size="0x4"): {TP: 4},
        said(model__sequence_parallel="on"): {SEQUENCE: True},
        said(model__seq_length="2048"): {LENGTH: 2048},
        said(model__hidden_sizes="1"): LeftOut("model.hidden_sizes"),
    },
)
