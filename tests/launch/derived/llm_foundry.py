"""LLM Foundry's train.py."""

from __future__ import annotations

from tests.launch.derived.family import Family, LeftOut, Refused, said

MICRO, LENGTH = "/training/micro_batch_size", "/training/seq_length"
ENGINE = "/framework/data_parallel_engine"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
PRECISION = "/training/precision"
RECOMPUTE = "/training/recompute/granularity"
REENTRANT = "/training/recompute/use_reentrant"
AUTOCAST = {
    "/training/precision": "autocast-bf16",
    "/training/precision/params": None,
    "/training/precision/compute": None,
    "/training/precision/gradients": None,
    "/training/precision/main_params": None,
}
DDP = {
    ENGINE: "ddp",
    "/framework/sync_each_micro_batch": None,
    SHARDING: None,
    RECOMPUTE: None,
    REENTRANT: None,
    **AUTOCAST,
}

FSDP = Family(
    source="llm-foundry 0.22: command_utils/train.py (train_from_yaml), utils/config_utils.py "
    "(TrainConfig); OmegaConf 2.3 (from_cli, merge)",
    command="composer -n 8 scripts/train/train.py config.yaml",
    config={
        "variables.length": "4096",
        "max_seq_len": "${variables.length}",
        "model.name": "hf_causal_lm",
        "model.pretrained_model_name_or_path": "meta-llama/Llama-2-7b-hf",
        "train_loader.name": "finetuning",
        "optimizer.name": "decoupled_adamw",
        "global_train_batch_size": "64",
        "device_train_microbatch_size": "2",
        "precision": "amp_bf16",
        "fsdp_config.sharding_strategy": "FULL_SHARD",
        "fsdp_config.mixed_precision": "DEFAULT",
        "fsdp_config.activation_checkpointing": "true",
        "fsdp_config.activation_checkpointing_reentrant": "false",
        "model.use_train_metrics": "false",
    },
    rows={
        "device_train_microbatch_size=4": {MICRO: 4},
        "device_train_microbatch_size=4 device_train_microbatch_size=1": {MICRO: 1},
        "device_train_microbatch_size=auto": Refused("is as large as fits"),
        "variables.length=2048": {LENGTH: 2048},
        "max_seq_len=1_024": {LENGTH: 1024},
        "fsdp_config=null": DDP,
        "'fsdp_config={sharding_strategy: SHARD_GRAD_OP}'": {SHARDING: "optim_grads"},
        "fsdp_config.sharding_strategy=no_shard": {SHARDING: "no_shard", **AUTOCAST},
        "fsdp_config.activation_checkpointing=off": {RECOMPUTE: None, REENTRANT: None},
        "fsdp_config.mixed_precision=PURE": {"/training/precision/gradients": "bf16"},
        "precision=fp32": {**AUTOCAST, PRECISION: "fp32"},
        "optimizer.name=decoupled_lionw": {"/training/optimizer/name": "lion"},
        "model.peft_config.r=8 model.peft_config.target_modules=all-linear": {
            "/training/peft/method": "lora",
            "/training/peft/r": 8,
            "/training/peft/target_modules": "all-linear",
            "/training/peft/base_dtype": "fp32",
        },
        "fsdp_config.activation_checkpoint=false": LeftOut("fsdp_config.activation_checkpoint"),
        said(device_train_microbatch_size="0x4"): {MICRO: 4},
        said(fsdp_config__sharding_strategy="shard_grad_op"): {SHARDING: "optim_grads"},
    },
)
ALONE = Family(
    source="llm-foundry 0.22: command_utils/train.py (Reverting to DDP)",
    command="composer -n 1 scripts/train/train.py config.yaml",
    config=FSDP.config,
    rows={
        "fsdp_config=null": {},
        "fsdp_config.activation_checkpointing=false": {},
        "fsdp_config.sharding_strategy=SHARD_GRAD_OP": {},
    },
)
