"""What launchers and schedulers take on their command lines, as their sources list it.

No option changes what a rank keeps in memory but those that say how many ranks there are, and what
`DECIDES_ELSEWHERE` names.
"""

from collections.abc import Mapping

from trainfit.launch.commands.options import Interface, names

TORCHRUN = Interface(
    valued=names(
        "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts "
        "monitor_interval start_method event_log_handler role log_dir redirects tee "
        "local_ranks_filter node_rank master_addr master_port local_addr logs_specs numa_binding "
        "signals_to_handle duplicate_stdout_filters duplicate_stderr_filters"
    ),
    switches=names("standalone module no_python run_path use_env virtual_local_rank"),
    aliases={"m": "module", "r": "redirects", "t": "tee", "nnode": "nnodes"},
    abbreviated=True,
)
"""torch.distributed.run of PyTorch 2.9; `use_env` is torch.distributed.launch's."""

ACCELERATE = Interface(
    valued=names(
        "config_file mixed_precision num_processes num_machines num_cpu_threads_per_process "
        "dynamo_backend dynamo_mode gpu_ids machine_rank main_process_ip main_process_port tee "
        "log_dir role rdzv_backend rdzv_conf max_restarts monitor_interval vm env "
        "main_training_function deepspeed_config_file zero_stage offload_optimizer_device "
        "offload_param_device offload_optimizer_nvme_path offload_param_nvme_path "
        "gradient_accumulation_steps gradient_clipping zero3_init_flag zero3_save_16bit_model "
        "deepspeed_hostfile deepspeed_exclusion_filter deepspeed_inclusion_filter "
        "deepspeed_multinode_launcher deepspeed_moe_layer_cls_names fsdp_version "
        "fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy "
        "fsdp_reshard_after_forward fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap "
        "fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch fsdp_use_orig_params "
        "fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing "
        "fsdp_backward_prefetch_policy megatron_lm_tp_degree megatron_lm_use_custom_fsdp "
        "megatron_lm_no_load_optim megatron_lm_eod_mask_loss "
        "megatron_lm_overlap_cpu_optimizer_d2h_h2d megatron_lm_no_save_optim "
        "megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer "
        "megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree "
        "megatron_lm_num_micro_batches megatron_lm_sequence_parallelism "
        "megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer "
        "megatron_lm_gradient_clipping megatron_lm_recompute_granularity "
        "megatron_lm_recompute_method megatron_lm_recompute_num_layers "
        "megatron_lm_attention_backend megatron_lm_expert_model_parallel_size "
        "megatron_lm_context_parallel_size megatron_lm_attention_dropout "
        "megatron_lm_hidden_dropout megatron_lm_attention_softmax_in_fp32 "
        "megatron_lm_expert_tensor_parallel_size megatron_lm_calculate_per_token_loss "
        "megatron_lm_use_rotary_position_embeddings fp8_backend fp8_margin fp8_interval "
        "fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_opt_level "
        "fp8_override_linear_precision fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim "
        "aws_access_key_id aws_secret_access_key mpirun_hostfile mpirun_ccl "
        "parallelism_config_dp_replicate_size parallelism_config_dp_shard_size "
        "parallelism_config_tp_size parallelism_config_cp_size parallelism_config_cp_backend "
        "parallelism_config_cp_comm_strategy parallelism_config_sp_size "
        "parallelism_config_sp_backend parallelism_config_sp_seq_length "
        "parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation"
    ),
    switches=names(
        "quiet cpu multi_gpu tpu use_mps_device enable_cpu_affinity dynamo_use_fullgraph "
        "dynamo_use_dynamic dynamo_use_regional_compilation use_deepspeed use_fsdp "
        "use_parallelism_config use_megatron_lm use_xpu ipex same_network module no_python "
        "tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 debug fp8_use_autocast_during_eval"
    ),
    aliases={"m": "module", "t": "tee", "q": "quiet"},
    abbreviated=True,
)
"""accelerate launch of accelerate 1.14. What they become stands where accelerate's keys are."""

DEEPSPEED = Interface(
    valued=names(
        "hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus "
        "master_port master_addr node_rank launcher launcher_args enable_each_rank_log autotuning "
        "bind_core_list ssh_port venv_script log_level"
    ),
    switches=names(
        "module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training "
        "bind_cores_to_rank quiet"
    ),
    aliases={
        "H": "hostfile",
        "i": "include",
        "e": "exclude",
        "m": "module",
        "q": "quiet",
        "num_accelerators": "num_gpus",
    },
    abbreviated=True,
)
"""deepspeed of DeepSpeed 0.19."""

SLURM = Interface(
    valued=names(
        "A B C D G J L M N S T W account acctg_freq array b batch bb bbf bcast begin c chdir "
        "cluster_constraint clusters comment compress constraint container container_entrypoint "
        "container_env container_id container_image container_mounts container_name "
        "container_remap_root container_save container_workdir core_spec cores_per_socket "
        "cpu_bind cpu_freq cpus_per_gpu cpus_per_task d deadline delay_boot dependency "
        "distribution e environment epilog error excluded_nodes export extra extra_node_info gid "
        "gpu_bind "
        "gpu_freq gpus gpus_per_node gpus_per_socket gpus_per_task gres gres_flags het_group hint "
        "i input job_name jobid licenses m mail_type mail_user max_threads mcs_label mem mem_bind "
        "mem_per_cpu mem_per_gpu mincpus mpi msg_timeout multi_prog n network nice nodefile "
        "nodelist nodes ntasks ntasks_per_core ntasks_per_gpu ntasks_per_node ntasks_per_socket o "
        "open_mode output p partition power prefer priority profile prolog propagate q qos r "
        "relative reservation resv_ports s_p_e_c signal slurmd_debug sockets_per_node switches t "
        "task_epilog task_prolog threads threads_per_core time time_min tmp treewidth uid w wait "
        "wait_all_nodes wckey wrap x auto_resume"
    ),
    switches=names(
        "E H I K O Q X Z bcast_exclude contiguous disable_status exact exclusive external "
        "get_user_env hold ignore_pbs immediate interactive k kill_on_bad_exit "
        "kill_on_invalid_dep l label no_allocate no_bell no_container_entrypoint "
        "no_container_mount_home container_mount_home no_kill no_requeue no_shell overcommit "
        "overlap oversubscribe parsable preserve_env pty quiet quit_on_interrupt reboot requeue s "
        "send_libs spread_job stepmgr test_only u unbuffered use_min_nodes v verbose whole"
    ),
    aliases={
        "N": "nodes",
        "n": "ntasks",
        "G": "gpus",
        "tasks_per_node": "ntasks_per_node",
        "exclude": "excluded_nodes",
    },
    abbreviated=True,
)
"""srun, sbatch and salloc of Slurm 25.05, and the container options of Pyxis and of CSCS."""

COMPOSER = Interface(
    valued=names("nproc stdout stderr world_size base_rank node_rank master_addr master_port"),
    switches=names("version verbose module no_python"),
    aliases={
        "n": "nproc",
        "v": "verbose",
        "m": "module",
        "module_mode": "module",
        "c": "no_python",
        "command_mode": "no_python",
    },
    abbreviated=True,
)
"""composer of MosaicML's Composer 0.32 (composer/cli/launcher.py)."""

MPIRUN = Interface(
    valued=names(
        "n H host hosts hostfile machinefile f bind_to map_by rank_by x npernode N ppn perhost "
        "wdir path output_filename stdin timeout prefix launcher iface"
    ),
    switches=names(
        "allow_run_as_root oversubscribe bind_to_core bind_to_none bind_to_socket bynode byslot "
        "display_map display_allocation report_bindings tag_output timestamp_output q v quiet "
        "verbose use_hwthread_cpus prepend_rank l"
    ),
    pairs=names("mca pmca gmca genv env"),
    aliases={"np": "n", "c": "n", "ppn": "npernode", "perhost": "npernode", "N": "npernode"},
)
"""mpirun and mpiexec of Open MPI 5 and MPICH 4."""

DECIDES_ELSEWHERE: Mapping[str, str] = {
    "autotuning": "the autotuner of DeepSpeed chooses the sizes of the run itself",
    "elastic_training": "DeepSpeed chooses the number of GPUs of an elastic run itself",
    "min_elastic_nodes": "DeepSpeed chooses the number of GPUs of an elastic run itself",
    "max_elastic_nodes": "DeepSpeed chooses the number of GPUs of an elastic run itself",
    "exclude": "which GPUs of a host are left out is known only with the hosts",
}
"""Options of launchers that change how many ranks there are in a way that is not followed."""
