"""Keys of axolotl's YAML."""

from __future__ import annotations

RENAMED = {
    "base_model": "model_name_or_path",
    "revision_of_model": "model_revision",
    "micro_batch_size": "per_device_train_batch_size",
    "eval_batch_size": "per_device_eval_batch_size",
    "sequence_len": "max_length",
    "optimizer": "optim",
    "evaluation_strategy": "eval_strategy",
    "bfloat16": "bf16_alone",
    "float16": "fp16_alone",
}
"""Keys that mean what Trainer's do, and the name that they are read by here."""

LAUNCHED = {
    "fsdp_version": "fsdp_version",
    "tensor_parallel_size": "parallelism_config_tp_size",
    "context_parallel_size": "parallelism_config_cp_size",
    "sequence_parallel_degree": "parallelism_config_cp_size",
    "dp_shard_size": "parallelism_config_dp_shard_size",
    "dp_replicate_size": "parallelism_config_dp_replicate_size",
}
"""Keys that axolotl hands to accelerate, by the names of its launcher's flags."""

FSDP = "fsdp_config."
"""The section whose keys are those of accelerate, with or without their prefix."""
