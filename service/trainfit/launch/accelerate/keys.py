"""Keys of accelerate's config and flags of accelerate launch, by the names of the flags."""

from __future__ import annotations

from trainfit.launch.names import Keys, names

OFF = (False, "False", "false", None, 0, "0", "no")

SECTIONS = {
    "fsdp_config": "fsdp_",
    "deepspeed_config": "",
    "parallelism_config": "parallelism_config_",
    "dynamo_config": "dynamo_",
    "mpirun_config": "",
}
"""Sections of the config, and what the flag of a key in them begins with."""

MEGATRON = "accelerate's Megatron-LM is not modelled; describe it as Megatron-LM"

KEYS = Keys(
    names("""
compute_environment debug quiet machine_rank main_process_ip main_process_port
main_training_function rdzv_backend rdzv_conf same_network enable_cpu_affinity
num_cpu_threads_per_process gpu_ids
downcast_bf16 tpu_env tpu_use_cluster tpu_use_sudo tpu_cluster no_tpu_cluster tpu_vm tpu_name
tpu_zone tpu_pod command_file commands command vm env
tee log_dir role max_restarts monitor_interval module no_python mpirun_hostfile mpirun_ccl
deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter
deepspeed_multinode_launcher gradient_clipping zero3_init_flag zero3_save_16bit_model
offload_optimizer_nvme_path offload_param_nvme_path is_train_batch_min
deepspeed_moe_layer_cls_names fsdp_backward_prefetch fsdp_backward_prefetch_policy
fsdp_forward_prefetch fsdp_use_orig_params fsdp_sync_module_states fsdp_state_dict_type
fsdp_cpu_ram_efficient_loading fsdp_limit_all_gathers
dynamo_use_dynamic dynamo_use_fullgraph dynamo_use_regional_compilation
aws_access_key_id aws_secret_access_key multi_gpu parallelism_config_cp_comm_strategy
parallelism_config_cp_backend seq_parallel_communication_data_type parallelism_config_sp_backend
parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable
parallelism_config_sp_attn_implementation
"""),
    {
        **dict.fromkeys(("use_cpu", "cpu", "tpu", "enable_msamp", "use_megatron_lm"), OFF),
        "fsdp_ignored_modules": (None, ""),
        "msamp_opt_level": (None, ""),
        **dict.fromkeys(
            (
                "fsdp_config",
                "deepspeed_config",
                "parallelism_config",
                "megatron_lm_config",
                "dynamo_config",
                "fp8_config",
                "mpirun_config",
            ),
            ({}, None),
        ),
    },
    {
        "use_cpu": "no GPU is used",
        "cpu": "no GPU is used",
        "tpu": "no GPU is used",
        "enable_msamp": "MS-AMP is not modelled",
        "use_megatron_lm": MEGATRON,
        **dict.fromkeys(SECTIONS, "has to be a section of keys"),
        "megatron_lm_config.": MEGATRON,
        "megatron_lm_*": MEGATRON,
        "fp8_*": "fp8 under accelerate is not modelled",
        "fp8_config.": "fp8 under accelerate is not modelled",
        "fsdp_ignored_modules": "modules that are not shared out are not modelled",
    },
)


DECIDING = names("""
distributed_type use_deepspeed use_fsdp mixed_precision num_processes num_machines
zero_stage offload_optimizer_device offload_param_device gradient_accumulation_steps
deepspeed_config_file fsdp_version fsdp_sharding_strategy fsdp_reshard_after_forward
fsdp_offload_params fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_min_num_params
fsdp_activation_checkpointing dynamo_backend dynamo_mode use_parallelism_config
parallelism_config_dp_replicate_size parallelism_config_dp_shard_size
parallelism_config_tp_size parallelism_config_cp_size parallelism_config_sp_size
""").names
"""Keys that decide memory where the engine runs that they are for."""
