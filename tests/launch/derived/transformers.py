"""Arguments of transformers' Trainer and of TRL, accelerate's config and DeepSpeed's."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, STEPS, LENGTH = (
    "/training/micro_batch_size",
    "/training/num_microbatches",
    "/training/seq_length",
)
RECOMPUTE = "/training/recompute/granularity"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
ENGINE = "/framework/data_parallel_engine"
PEFT = "/training/peft"
CHUNKS = "/training/loss/num_chunks"
"""Of 256 tokens each, since TRL 1.7."""
RESHARD = "/framework/reshard_after_forward"

TRL = Family(
    source="transformers 5.23: hf_argparser.py; trl 1.16: scripts/utils.py (TrlParser), "
    "trainer/sft_config.py, trainer/model_config.py",
    command="accelerate launch --num_processes 8 trl/scripts/sft.py --model_name_or_path "
    "Qwen/Qwen3-8B --dtype bfloat16 --per_device_train_batch_size 2 --max_length 2048 --packing "
    "--config config.yaml",
    given={"framework_version": "transformers==5.23.0 trl==1.16.0"},
    config={"gradient_accumulation_steps": "4", "per_device_train_batch_size": "16"},
    rows={
        "--per_device_train_batch_size=4": {MICRO: 4, CHUNKS: 32},
        "--per-device-train-batch-size 4": {MICRO: 4, CHUNKS: 32},
        "--per_device_train_batch_size 4 --per_device_train_batch_size 1": {MICRO: 1, CHUNKS: 8},
        "--per_device_train_bat 4": LeftOut("per_device_train_bat"),
        "--max_length 1_024": {LENGTH: 1024, CHUNKS: 8},
        "--max_length 0x400": Refused("max_length"),
        "--gradient_checkpointing f": {RECOMPUTE: None},
        "--no_gradient_checkpointing": {RECOMPUTE: None},
        "--no-gradient-checkpointing": {RECOMPUTE: None},
        "--gradient_checkpointing maybe": Refused("gradient_checkpointing"),
        "--use_liger_kernel": {
            "/framework/liger_kernel": True,
            "/training/loss/cross_entropy": None,
            CHUNKS: None,
        },
        "--use_liger_kernel no": {},
        "--lora_r 8": {},
        "--use_peft --lora_target_modules q_proj v_proj": {
            "/training/precision": "autocast-bf16",
            f"{PEFT}/base_dtype": "bf16",
            f"{PEFT}/method": "lora",
            f"{PEFT}/r": 16,
            f"{PEFT}/dropout": 0.05,
            f"{PEFT}/target_modules": ["q_proj", "v_proj"],
        },
        "--zzz 1": LeftOut("zzz"),
        said(gradient_accumulation_steps="8"): {STEPS: 8},
        said(gradient_accumulation_steps="'8'"): {STEPS: 8},
        said(per_device_train_batch_size="32"): {},
        said(max_len="32"): LeftOut("max_len"),
    },
)
ACCELERATE = Family(
    source="accelerate 1.15: commands/config/config_args.py (ClusterConfig), commands/launch.py, "
    "utils/dataclasses.py (FullyShardedDataParallelPlugin)",
    command="accelerate launch --config_file config.yaml sft.py --model_name_or_path "
    "Qwen/Qwen3-8B --dtype bfloat16 --per_device_train_batch_size 2 --max_length 2048 --packing "
    "--gradient_checkpointing false",
    given={"framework_version": "transformers==5.23.0 trl==1.16.0"},
    config={
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": "1",
        "num_processes": "8",
        "fsdp_config.fsdp_version": "2",
        "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_config.fsdp_reshard_after_forward": "true",
    },
    rows={
        said(num_processes="4"): {"/parallelism/num_gpus": 4},
        said(num_processes="'4'"): {"/parallelism/num_gpus": 4},
        said(distributed_type="MULTI_GPU"): {
            ENGINE: "ddp",
            SHARDING: None,
            RESHARD: None,
            "/training/precision": "bf16-pure",
        },
        said(distributed_type="fsdp"): {},
        said(fsdp_config__fsdp_reshard_after_forward="false"): {RESHARD: False},
        said(fsdp_config__fsdp_version="1", fsdp_config__fsdp_sharding_strategy="SHARD_GRAD_OP"): {
            ENGINE: "fsdp1",
            RESHARD: False,
        },
        said(fsdp_config__fsdp_offload_params="true"): {"/framework/offload_params": True},
        said(fsdp_config__fsdp_activation_checkpointing="true"): {RECOMPUTE: "full"},
        said(no_such_key="1"): LeftOut("no_such_key"),
    },
)
ZERO = Family(
    source="DeepSpeed 0.18: runtime/config.py, runtime/zero/config.py; transformers 5.23: "
    "integrations/deepspeed.py (HfTrainerDeepSpeedConfig)",
    command="deepspeed --num_gpus 8 sft.py --deepspeed config.json --model_name_or_path "
    "Qwen/Qwen3-8B --bf16 --per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
    "--max_length 2048 --packing",
    given={"framework_version": "transformers==5.23.0 trl==1.16.0"},
    path="config.json",
    config={
        "bf16.enabled": "auto",
        "zero_optimization.stage": "3",
        "zero_optimization.overlap_comm": "true",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
    },
    rows={
        "--per_device_train_batch_size 4": {MICRO: 4, CHUNKS: 32},
        said(zero_optimization__stage="2"): {SHARDING: "optim_grads"},
        said(zero_optimization__stage="1"): {SHARDING: "optim"},
        said(zero_optimization__stage="0"): {SHARDING: "no_shard"},
        said(train_micro_batch_size_per_gpu="2"): {},
        said(train_micro_batch_size_per_gpu="4"): Refused("train_micro_batch_size_per_gpu"),
        said(zero_optimization__overlap_comm="false"): {
            "/framework/deepspeed/overlap_comm": False,
        },
        said(zero_optimization__offload_optimizer__device="cpu"): {
            "/framework/deepspeed/offload_optimizer": True
        },
        said(zero_optimization__offload_optimizer__device="none"): {},
        said(zero_optimization__cpu_offloading="true"): LeftOut("zero_optimization.cpu_offloading"),
    },
)
