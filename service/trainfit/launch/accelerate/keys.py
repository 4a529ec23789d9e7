"""Keys of accelerate's config and flags of accelerate launch, by the names of the flags."""

from __future__ import annotations

from trainfit.launch.keys import words

SECTIONS = {
    "fsdp_config": "fsdp_",
    "deepspeed_config": "",
    "parallelism_config": "parallelism_config_",
    "dynamo_config": "dynamo_",
    "mpirun_config": "",
}
"""Sections of the config, and what the flag of a key in them begins with."""

DECIDING = words("""
distributed_type use_deepspeed use_fsdp mixed_precision num_processes num_machines
zero_stage offload_optimizer_device offload_param_device gradient_accumulation_steps
deepspeed_config_file fsdp_version fsdp_sharding_strategy fsdp_reshard_after_forward
fsdp_offload_params fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_min_num_params
fsdp_activation_checkpointing dynamo_backend dynamo_mode use_parallelism_config
parallelism_config_dp_replicate_size parallelism_config_dp_shard_size
parallelism_config_tp_size parallelism_config_cp_size parallelism_config_sp_size
""")
"""Keys that decide memory where the engine runs that they are for."""
