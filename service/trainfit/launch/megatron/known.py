"""Options of Megatron-LM that are known not to change memory, and those that are not modelled.

Together with the options that are read (`keys`), these are all options of every release.
"""

IRRELEVANT = frozenset(
    word
    for words in (
        # Pai-Megatron-Patch's own.
        "data_dir epochs patch_tokenizer_type train_mode",
        # Details of options that are unsupported by their own names.
        """
        batch_invariant_backend cpu_offloading_retain_pinned_cpu_buffers cuda_graph_modules
        cuda_graph_scope_deprecated cuda_graph_warmup_steps decode_only_cuda_graphs
        disable_symmetric_registration dsa_indexer_head_dim dsa_indexer_k_norm_epsilon
        dsa_indexer_k_norm_fp32 dsa_indexer_loss_coeff dsa_indexer_n_heads
        dsa_indexer_rope_interleaved dsa_indexer_rotate_activation dsa_indexer_scoring_relu
        dsa_indexer_skip_topk_offset dsa_indexer_topk dsa_indexer_topk_freq
        dsa_indexer_use_sparse_loss dsa_kernel_backend fp4_quantizer_factory fp4_recipe
        fp8_quantizer_factory gdp_cutedsl_kernel gdp_num_chunk_states_to_recompute
        gdp_num_householder grpo_clamp_eps_lower grpo_clamp_eps_upper grpo_default_temperature
        grpo_default_top_p grpo_entropy_term_weight grpo_filter_groups_with_same_reward
        grpo_group_size grpo_iterations grpo_kl_beta grpo_prompts_per_step gtp_expert_remat_nccl_ub
        gtp_remat_nccl_ub gtp_remat_opt_in_modules gtp_remat_reduce_scatter_with_fp32_accumulation
        kitchen_attention_backend langrl_env_config langrl_external_server
        langrl_inference_server_conversation_template langrl_inference_server_type
        linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads
        linear_value_head_dim logits_load_decode_threads logits_load_ignore_errors
        logits_load_kd_loss_alpha logits_load_msc_prefetch_depth logits_load_prefetch_factor
        logits_save_dtype logits_save_top_k logits_save_top_p logits_save_top_p_min_k
        mamba_inference_conv_states_dtype mamba_inference_ssm_states_dtype max_seqlen_per_dp_cp_rank
        mhc_init_gating_factor mhc_num_residual_streams mhc_recompute_layer_num
        mhc_sinkhorn_iterations moe_deepep_num_sms moe_enable_deepep
        moe_flex_dispatcher_num_sms moe_hybridep_num_blocks_permute
        moe_hybridep_num_blocks_unpermute moe_hybridep_num_sms moe_hybridep_num_sms_preprocessing
        moe_hybridep_pad_uneven_dispatch_inputs moe_ncclep_static_shape moe_ncclep_zero_copy
        moe_paged_stash_buffer_size_factor_cpu moe_paged_stash_buffer_size_factor_cuda
        moe_paged_stash_page_size moe_permute_fusion_into_hybridep
        moe_routing_trace_capture_hidden_states moe_routing_trace_capture_logits
        moe_routing_trace_dump_weights moe_routing_trace_max_training_iters
        moe_upcycling_granularity num_layers_at_end_in_bf16 num_layers_at_start_in_bf16
        num_speculative_tokens pin_cpu_grads pin_cpu_params refit_method retriever_seq_length
        retro_attention_gate retro_cyclic_train_iters retro_encoder_attention_dropout
        retro_encoder_hidden_dropout retro_encoder_layers retro_num_neighbors
        retro_num_retrieved_chunks retro_project_dir retro_return_doc_ids
        retro_verify_neighbor_count retro_workdir rl_calculate_intra_group_similarity
        rl_consumption_granularity rl_default_temperature rl_default_top_k rl_default_top_p
        rl_durable_rollout_bank rl_generation_batch_size rl_generation_lag
        rl_importance_sampling_truncation_coef rl_inference_expert_model_parallel_size
        rl_inference_expert_tensor_model_parallel_size rl_inference_logprobs_is_correction
        rl_inference_model_unified_memory_level rl_inference_parsers
        rl_inference_pipeline_model_parallel_size rl_inference_tensor_model_parallel_size
        rl_kv_cache_management_mode rl_max_inflight_requests rl_num_parallel_generation_batches
        rl_num_parallel_generations rl_offload_inference_model_weights_when_idle
        rl_offload_kv_cache_during_training rl_offload_optimizer_during_inference
        rl_parallel_generation_tasks rl_partial_rollouts rl_persist_cuda_graphs rl_profile
        rl_profile_dir rl_prompts_per_eval rl_remove_kv_cache_during_training rl_reset_cuda_graphs
        rl_rollout_bank_dir rl_rollout_bank_max_bytes rl_sequence_packing_algo
        rl_sequence_packing_bin_size rl_sequence_packing_max_sequences_per_bin rl_skip_bos_token
        rl_submission_granularity rl_training_cuda_graphs rl_use_sequence_packing
        rl_verify_model_weights_swap sft_tokenizer_prompt_format strict_fsdp_dtensor_load
        torch_fsdp2_reshard_after_forward tp_comm_bootstrap_backend tp_comm_bulk_dgrad
        tp_comm_bulk_wgrad tp_comm_overlap_ag tp_comm_overlap_cfg tp_comm_overlap_rs
        tp_comm_overlap_rs_dgrad tp_comm_split_ag tp_comm_split_rs
        use_torch_optimizer_for_cpu_offload
        """,
        # Read by the builder of ModelOpt's models alone (post_training/model_builder.py), which
        # runs with --modelopt-enabled, or from a checkpoint of ModelOpt's (model_provider.py).
        """
        enable_gpt_oss export_default_te_spec export_force_local_attention export_te_mcore_model
        """,
        # Read by programs that are refused by name.
        """
        bert_binary_head bert_embedder_type bert_load biencoder_projection_dim
        biencoder_shared_query_context_model block_data_path classes_fraction
        data_per_class_fraction data_sharding dino_bottleneck_size dino_freeze_last_layer
        dino_head_hidden_size dino_local_crops_number dino_local_img_size dino_norm_last_layer
        dino_teacher_temp dino_warmup_teacher_temp dino_warmup_teacher_temp_epochs embedding_path
        evidence_data_path finetune_data_files finetune_data_split finetune_hf_dataset head_lr_mult
        ict_head_size ict_load img_h img_w indexer_batch_size indexer_log_interval iter_per_epoch
        mask_factor mask_prob mask_type num_channels num_classes output_bert_embeddings patch_dim
        query_in_block_prob retriever_report_topk_accuracies retriever_score_scaling sample_rate
        short_seq_prob swin_backbone_type titles_data_path use_one_sent_docs vision_backbone_type
        vision_pretraining vision_pretraining_type vocab_extra_ids
        """,
        # Inference and evaluation.
        """
        cache_mla_latents disable_chunked_prefill enable_chunked_prefill eval_global_batch_size
        eval_interval eval_iters flash_decode full_validation inference_batch_times_seqlen_threshold
        inference_coordinator_port inference_cuda_graph_all_prefills inference_cuda_graph_max_tokens
        inference_cuda_graph_scope inference_disable_ep_consensus
        inference_disable_triton_nvls_kernels inference_dynamic_batching
        inference_dynamic_batching_async_sched_mode inference_dynamic_batching_block_size
        inference_dynamic_batching_buffer_guaranteed_fraction
        inference_dynamic_batching_buffer_overflow_factor inference_dynamic_batching_buffer_size_gb
        inference_dynamic_batching_chunk_size inference_dynamic_batching_cuda_graph_max_tokens
        inference_dynamic_batching_cuda_graph_mixed_prefill_count
        inference_dynamic_batching_cuda_graph_sizing_distribution
        inference_dynamic_batching_enable_prefix_caching inference_dynamic_batching_logprobs_mode
        inference_dynamic_batching_mamba_memory_ratio inference_dynamic_batching_max_requests
        inference_dynamic_batching_max_requests_override inference_dynamic_batching_max_tokens
        inference_dynamic_batching_max_tokens_override inference_dynamic_batching_num_cuda_graphs
        inference_dynamic_batching_paused_buffer_size_gb
        inference_dynamic_batching_prefix_caching_coordinator_policy
        inference_dynamic_batching_prefix_caching_eviction_policy
        inference_dynamic_batching_prefix_caching_mamba_gb
        inference_dynamic_batching_prefix_caching_routing_alpha
        inference_dynamic_batching_sampling_backend
        inference_dynamic_batching_track_generated_token_events
        inference_dynamic_batching_track_paused_request_events
        inference_dynamic_batching_unified_memory_level inference_fuse_tp_communication
        inference_grouped_gemm_backend inference_logging_step_interval inference_max_batch_size
        inference_max_requests inference_max_seq_length inference_moe_disable_fused_quant_kernels
        inference_moe_token_dispatcher_type inference_rng_tracker inference_shards
        inference_text_gen_server_logging inference_use_synchronous_zmq_collectives
        inference_wandb_logging max_tokens_to_oom mlp_chunks_for_prefill
        moe_pad_experts_for_cuda_graph_inference multiple_validation_sets
        nccl_all_reduce_for_prefill start_eval_at_iter use_legacy_static_engine validation_set_names
        """,
        # Checkpoints.
        """
        async_ckpt_cpu_priority async_ckpt_io_priority async_ckpt_use_cpu_shm async_save
        async_strategy auto_detect_ckpt_format ckpt_assume_constant_structure ckpt_convert_format
        ckpt_convert_save ckpt_convert_update_legacy_dist_opt_format ckpt_drop_redundant_extra_state
        ckpt_format ckpt_fully_parallel_load ckpt_fully_parallel_load_exchange_algo
        ckpt_fully_parallel_load_per_rank_objects ckpt_fully_parallel_load_process_group
        ckpt_fully_parallel_save ckpt_fully_parallel_save_deprecated
        ckpt_fully_parallel_save_process_group ckpt_load_validate_sharding_integrity
        ckpt_pg_tensors_cache_create ckpt_pg_tensors_cache_path ckpt_step
        dist_ckpt_format_deprecated dist_ckpt_optim_fully_reshardable dist_ckpt_save_pre_mcore_014
        dist_ckpt_strictness dist_ckpt_workers distrib_optim_fully_reshardable_mem_efficient
        exit_on_missing_checkpoint finetune load load_main_params_from_ckpt load_model_opt_format
        no_load_optim no_load_rng no_save_optim no_save_rng non_persistent_ckpt_type
        non_persistent_global_ckpt_dir non_persistent_local_ckpt_algo non_persistent_local_ckpt_dir
        non_persistent_save_interval override_ckpt_iteration override_opt_param_scheduler
        pretrained_checkpoint replication replication_factor replication_jump save save_interval
        save_retain_interval save_tokenizer_assets save_tokens_per_expert_interval
        stream_ckpt_dequant use_checkpoint_opt_param_scheduler use_dist_ckpt_deprecated
        use_persistent_ckpt_worker use_tokenizer_model_from_checkpoint_args verify_integrity
        """,
        # Data and tokenizers.
        """
        allow_ambiguous_pad_tokens chat_template data_args_path data_cache_path
        data_parallel_random_init data_path dataloader_defer_npy_index_mmap
        dataloader_fast_cache_load dataloader_type disable_msc_deprecated enable_msc eod_mask_loss
        fim_data fim_eod_token fim_fragment_rate fim_middle_token fim_no_prefix fim_pad_token
        fim_prefix_token fim_rate fim_split_sample fim_spm_rate fim_suffix_token legacy_tokenizer
        merge_file metadata_path mid_level_dataset_surplus mmap_bin_files mock_data
        null_tokenizer_eod_id null_tokenizer_pad_id num_dataset_builder_threads num_workers
        object_storage_cache_path per_dataset_sequences_path per_split_data_args_path
        renormalize_blend_weights reset_attention_mask reset_position_ids s3_cache_path
        special_tokens split test_data_path tiktoken_num_special_tokens tiktoken_pattern
        tiktoken_special_tokens tokenizer_hf_include_special_tokens
        tokenizer_hf_no_include_special_tokens tokenizer_hf_no_use_fast tokenizer_hf_use_fast
        tokenizer_model tokenizer_sentencepiece_ignore_extra_whitespaces
        tokenizer_sentencepiece_legacy train_data_path trust_remote_code use_gigatoken
        valid_data_path vocab_file
        """,
        # Logging and profiling.
        """
        app_tag_run_name app_tag_run_version barrier_with_L1_time config_logger_dir
        dump_param_to_param_group_map enable_one_logger flight_recorder_dump_on_timeout
        flight_recorder_dump_path flight_recorder_extra_dump_on_exec
        flight_recorder_include_only_active flight_recorder_include_stack_trace
        flight_recorder_trace_buffer_size log_batch_size_to_tensorboard log_device_memory_used
        log_energy log_interval log_learning_rate_to_tensorboard log_loss_scale_to_tensorboard
        log_max_attention_logit log_memory_interval log_memory_to_tensorboard log_num_zeros_in_grad
        log_params_norm log_progress log_straggler log_throughput log_timers_to_tensorboard
        log_validation_ppl_to_tensorboard log_world_size_to_tensorboard logging_level
        memory_snapshot_path moe_per_layer_logging nvtx_ranges one_logger_async one_logger_entity
        one_logger_project one_logger_run_name otel_enabled otel_service_name otel_span_groups
        profile profile_ranks profile_step_end profile_step_start pytorch_profiler_collect_callstack
        pytorch_profiler_collect_chakra pytorch_profiler_collect_shapes record_memory_history
        record_shapes tensorboard_dir tensorboard_log_interval tensorboard_queue_size test_mode
        timing_log_level timing_log_option use_pytorch_profiler wandb_entity wandb_exp_name
        wandb_project wandb_save_dir
        """,
        # Faults, restarts and the machine.
        """
        adlr_autoresume adlr_autoresume_interval calc_ft_timeouts check_for_large_grads
        check_for_nan_in_loss_and_grad check_for_spiky_loss
        check_weight_hash_across_dp_replicas_interval disable_straggler_on_startup
        distributed_backend distributed_timeout_minutes distributed_timeout_seconds_after_init
        empty_unused_memory_level enable_experimental enable_ft_package error_injection_rate
        error_injection_type exit_duration_in_mins exit_interval exit_signal exit_signal_handler
        exit_signal_handler_for_dataloader exit_signal_handler_for_training fake_process_group
        fault_injector_delay_start_iteration fault_injector_fault_delay
        fault_injector_fault_probabilities fault_injector_fault_types fault_injector_mtti_seconds
        fault_injector_num_ranks fault_injector_offset_seconds fault_injector_ranks
        fault_injector_seed ft_num_warmup_iters high_priority_a2a_comm_stream
        high_priority_stream_groups init_model_with_meta_device inprocess_active_world_size
        inprocess_barrier_timeout inprocess_completion_timeout inprocess_empty_cuda_cache
        inprocess_granularity inprocess_hard_timeout inprocess_heartbeat_interval
        inprocess_heartbeat_timeout inprocess_last_call_wait inprocess_max_iterations
        inprocess_monitor_process_interval inprocess_monitor_thread_interval
        inprocess_progress_watchdog_interval inprocess_restart inprocess_soft_timeout
        inprocess_termination_grace_time iterations_to_skip lazy_mpu_init local_rank manual_gc
        manual_gc_eval manual_gc_interval offset_sampling_seed_by_dp_rank perform_initialization
        pipeline_model_parallel_comm_backend rerun_mode result_rejected_tracker_filename
        run_workload_inspector_server scatter_gather_tensors_in_pipeline seed sharp_enabled_group
        straggler_ctrlr_port straggler_minmax_count te_rng_tracker train_sync_interval
        use_cpu_initialization use_gloo_process_groups use_ring_exchange_p2p use_sharp
        use_tp_pp_dp_mapping
        """,
        # The optimizer's arithmetic and the schedule of the run.
        """
        adam_beta1 adam_beta2 adam_eps apply_wd_to_qk_layernorm clip_grad decoupled_lr
        decoupled_min_lr decrease_batch_size_if_needed end_weight_decay hysteresis
        initial_loss_scale lion_beta1 lion_beta2 loss_scale loss_scale_window lr lr_decay_iters
        lr_decay_samples lr_decay_style lr_warmup_fraction lr_warmup_init lr_warmup_iters
        lr_warmup_samples lr_wsd_decay_iters lr_wsd_decay_samples lr_wsd_decay_style min_loss_scale
        min_lr muon_coefficient_type muon_extra_scale_factor muon_fp32_matmul_prec muon_momentum
        muon_nesterov muon_num_ns_steps muon_scale_mode muon_split_qkv muon_tp_mode
        muon_use_nesterov muon_use_syrk no_weight_decay_cond_type phase_transition_iterations
        rampup_batch_size start_weight_decay train_iters train_samples use_layer_wise_param_layout
        warmup weight_decay weight_decay_incr_style
        """,
        # The order of work on the same tensors, and when NCCL is told of buffers.
        """
        fsdp_manual_registration
        align_grad_reduce align_param_gather async_tensor_model_parallel_allreduce
        ddp_average_in_collective delay_grad_reduce delay_param_gather delay_wgrad_compute
        gradient_reduce_div_fusion overlap_p2p_comm overlap_param_gather_with_optimizer_step
        """,
        # Routing scores: a few values per token and expert, and a buffer of one per expert.
        """
        moe_aux_loss_coeff moe_mlp_glu_interleave_size moe_router_bias_update_rate
        moe_router_enable_expert_bias moe_router_force_load_balancing moe_router_fusion
        moe_router_group_topk moe_router_load_balancing_type moe_router_num_groups
        moe_router_pre_softmax moe_router_quantile_balancing_ema moe_router_score_function
        moe_router_topk_scaling_factor moe_shared_expert_glu_interleave_size moe_token_drop_policy
        moe_z_loss_coeff
        """,
        # Arithmetic with the same tensors. The unfused rope and dropout keep no more.
        """
        apply_query_key_layer_scaling apply_rope_fusion attention_softmax_in_fp32
        bias_dropout_fusion
        calculate_per_token_loss deprecated_use_mcore_models disable_bf16_reduced_precision_matmul
        embedding_init_method_std flash_attention_version fp8_amax_compute_algo fp8_amax_history_len
        fp8_interval fp8_margin glu_linear_offset init_method_std init_method_xavier_uniform
        layernorm_epsilon layernorm_zero_centered_gamma mrope_section mscale mscale_all_dim
        mtp_loss_scaling_factor mup_attn_scale_power mup_base_head_dim mup_base_hidden_size
        mup_embedding_mult mup_output_mult mup_width_mult no_persist_layer_norm no_rope_freq qk_clip
        qk_clip_alpha qk_clip_threshold relative_attention_max_distance
        relative_attention_num_buckets rope_scaling_factor rope_type rotary_base rotary_interleaved
        rotary_percent rotary_scaling_factor rotary_seq_len_interpolation_factor
        use_mup use_rope_scaling yarn_beta_fast yarn_beta_slow yarn_correction_range_round_to_int
        yarn_original_max_position_embeddings
        """,
    )
    for word in words.split()
)
"""Options that do not change the peak, or by less than an estimate can tell."""

WITHOUT_EFFECT = {
    "megatron_fsdp_main_params_dtype": ("fp32",),
    "onnx_safe": (False,),
}
"""Options that are not modelled, at values that change nothing beside a release's own default."""

VALUE_IRRELEVANT = frozenset(("lr_wsd_decay_style", "rotary_base", "tokenizer_type"))
"""Options that forks give other values: another decay, a base that is no whole number, a tokenizer
of their own, whose vocabulary has to be told as that of any other."""

OF_FORKS = frozenset(("--data-impl", "--data-path2", "--train-tokens"))
"""Options of early Megatron-LM, its examples and Megatron-DeepSpeed that do not change memory."""

UNSUPPORTED = {
    word: why
    for why, words in {
        "kinds of layers are read from --hybrid-override-pattern, not from ratios": """
            hybrid_attention_ratio hybrid_mlp_ratio
            """,
        "only programs of hybrid models have it, or launches with a pattern of layers": """
            is_hybrid_model mtp_hybrid_override_pattern mamba_head_dim mamba_num_groups
            mamba_num_heads mamba_state_dim
            """,
        "what this path through Mamba keeps is not modelled": """
            use_mamba_mem_eff_path mamba_training_ssm_states_dtype
            """,
        "linear and sparse attention have no place in model.spec": """
            experimental_attention_variant linear_attention_freq
            """,
        "layers of a custom spec are not known": """
            spec
            """,
        "layers that differ in their sizes have no place in model.spec": """
            heterogeneous_layers_config_path heterogeneous_layers_config_encoded_json
            """,
        "hyper-connections have no place in model.spec": """
            enable_mhc_connections
            """,
        "an encoder beside the decoder is not modelled": """
            decoder_num_layers decoder_seq_length encoder_pipeline_model_parallel_size
            encoder_tensor_model_parallel_size pipeline_model_parallel_split_rank
            retro_add_retriever
            """,
        "a stage of its own for the embedding is not modelled": """
            standalone_embedding_stage
            """,
        "Megatron's layers before megatron-core are not modelled": """
            use_legacy_models
            """,
        "its file is read by the format megatron_yaml": """
            yaml_cfg
            """,
        "takes arguments from a checkpoint, which is not at hand": """
            use_checkpoint_args use_mp_args_from_checkpoint_args
            """,
        "memory pools of CUDA graphs are not modelled": """
            cuda_graph_impl enable_cuda_graph external_cuda_graph optimizer_cuda_graph
            """,
        "rollouts and the steps of reinforcement learning are not modelled": """
            perform_rl_step
            """,
        "ModelOpt's teachers, quantizers and speculative heads are not modelled": """
            export_draft_vocab_size export_eagle_algorithm export_freeze_mtp export_kd_cfg
            export_kd_finalize
            export_kd_teacher_ckpt_format export_kd_teacher_load export_kd_teacher_model_config
            export_kv_cache_quant export_legacy_megatron export_model_type
            export_moe_apply_probs_on_input export_num_eagle_layers export_num_medusa_heads
            export_num_mtp export_offline_model export_qk_l2_norm export_quant_cfg
            export_real_quant_cfg modelopt_enabled teacher_model_config
            qad_train_target
            """,
        "logits that are saved or loaded for distillation are not modelled": """
            logits_load_dir logits_save_dir
            """,
        "the backbone that is frozen is not modelled": """
            freeze_all_layers freeze_base_for_mtp
            """,
        "this variant of multi-token prediction is not modelled": """
            mtp_detach_heads mtp_hsm mtp_standalone mtp_use_repeated_layer
            """,
        "weights that are shared out within a tensor-parallel group are not modelled": """
            tensor_parallel_num_weight_shards expert_tensor_parallel_num_weight_shards
            """,
        "whole layers whose activations wait in host memory are not modelled": """
            cpu_offloading_num_layers
            """,
        "this limit on offloading is not modelled": """
            activation_offload_fraction delay_offload_until_cuda_graph
            delta_offload_bytes_across_pp_ranks fine_grained_offloading_max_inflight_offloads
            min_offloaded_tensor_size overlap_cpu_optimizer_d2h_h2d
            """,
        "fp4 is not modelled": """
            fp4 fp4_param_gather
            """,
        "precision that differs from layer to layer is not modelled": """
            first_last_layers_bf16 te_precision_config_file kitchen_config_file
            kitchen_recipe_number use_kitchen_attention
            """,
        "this choice of what is kept or multiplied in fp8 is not modelled": """
            fp8_output_proj fp8_wgrad keep_fp8_transpose_cache
            keep_fp8_transpose_cache_when_using_custom_fsdp reuse_grad_buf_for_mxfp8_param_ag
            """,
        "this type of a tensor that is kept is not modelled": """
            apply_residual_connection_post_layernorm fp16_lm_cross_entropy fp32_residual_connection
            logit_dtype
            """,
        "what this kernel, or its absence, keeps is not modelled": """
            batch_invariant_mode
            clone_scatter_output_in_embedding disable_jit_fuser
            fused_residual_rmsnorm mla_down_proj_fusion
            mlp_chunks_for_training onnx_safe openai_gelu qk_l2_norm use_fused_weighted_squared_relu
            use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert use_te_activation_func
            use_transformer_engine_op_fuser
            """,
        "this way to route or move tokens is not modelled": """
            moe_apply_probs_on_input moe_combine_bwd_dtype moe_dispatch_fwd_dtype
            moe_enable_routing_replay moe_expert_rank_capacity_factor moe_extended_tp
            moe_input_jitter_eps moe_paged_stash moe_router_force_biased moe_router_padding_for_fp8
            moe_router_padding_for_quantization moe_routing_trace_path moe_single_grouped_bias
            moe_single_grouped_weight moe_token_dropping moe_use_grouped_tensor
            moe_use_legacy_grouped_gemm moe_use_upcycling
            """,
        "this schedule of exchanges with experts is not modelled": """
            ep_overlap_early_attn_memory_release overlap_dispatch_backward_with_experts_wgrad
            overlap_p2p_comm_warmup_flush
            """,
        "buffers of this way to communicate are not modelled": """
            create_all_gather_group nccl_communicator_config_path symmetric_ar_type
            tp_comm_overlap
            """,
        "this choice of Megatron-FSDP is not modelled": """
            enable_full_sharding_in_hsdp fsdp_db_use_persist_buf_on_alloc_fail
            megatron_fsdp_enable_fine_grained_param_gather
            megatron_fsdp_main_params_dtype megatron_fsdp_max_pool_double_buffer
            megatron_fsdp_version outer_dp_sharding_strategy suggested_communication_unit_size
            """,
        "PyTorch's FSDP under Megatron is not modelled": """
            use_torch_fsdp2
            """,
        "gradients beside those of the bucket are not modelled": """
            ddp_param_name_patterns_for_fp32_local_accumulation
            ddp_reduce_scatter_with_fp32_accumulation
            """,
        "sequences of several lengths in one batch are not modelled": """
            hybrid_context_parallel sft
            """,
        "an evaluation with micro-batches of its own is not modelled": """
            eval_micro_batch_size
            """,
        "tensors that are kept to be saved are not modelled": """
            save_activations_interval save_dgrads_interval save_params_interval save_wgrads_interval
            """,
        "Megatron-LM stops at it; --recompute-granularity says what is made again": """
            checkpoint_activations
            """,
        "what this test of a GPU allocates is not known": """
            gpu_sniff_test_interval
            """,
        "what optimizer steps scalars is not modelled": """
            muon_scalar_optimizer
            """,
        "nothing is trained": """
            skip_train
            """,
    }.items()
    for word in words.split()
}
"""Why an option that may change memory is not read."""

CONFIG_IRRELEVANT = frozenset(
    word
    for words in (
        """
        timers finalize_model_grads_func grad_scale_func moe_grad_scale_func mtp_grad_scale_func
        no_sync_func grad_sync_func param_sync_func params_dtype enable_autocast autocast_dtype
        autocast_enabled pipeline_dtype variable_seq_lengths batch_p2p_comm batch_p2p_sync
        tp_comm_atomic_ag tp_comm_atomic_rs tp_comm_overlap_disable_qkv tp_comm_overlap_disable_fc1
        _cpu_offloading_context cpu_offloading_activations cpu_offloading_weights softmax_scale
        experimental_attention_variant_loss_scale_func init_method output_layer_init_method
        embedding_init_method fused_single_qkv_rope tp_only_amax_red use_te_rng_tracker
        moe_router_topk_limited_devices cuda_graph_use_single_mempool
        cuda_graph_retain_backward_graph cuda_graph_scope inference_sampling_seed
        hetereogenous_dist_checkpoint parallel_output rope_scaling seq_len_interpolation_factor
        yarn_rotary_scaling_factor yarn_mscale yarn_mscale_all_dim original_max_position_embeddings
        beta_fast beta_slow scatter_embedding_sequence_parallel hf_model_revision mtp_enabled
        _pg_collection use_arbitrary_attention_mask num_epochs _train_iters_from_num_epochs
        check_optimizer_step_success skip_sync_grad_norm_across_mp decoupled_weight_decay
        soap_shampoo_beta soap_use_kl_shampoo adaptive_muon_moment2_method adaptive_muon_beta2
        adaptive_muon_eps grad_norm_skip_threshold finetune_lr external_gpu_device_mapping
        enable_megatron_core_experimental lazy_init data_parallel_size
        scale_factor low_freq_factor high_freq_factor old_context_len
        """,
    )
    for word in words.split()
)
"""Fields of the config dataclasses that no option sets, and that do not change the peak."""

CONFIG_UNSUPPORTED = {
    word: why
    for why, words in {
        "this choice of what is kept is not modelled": """
            memory_efficient_layer_norm activation_func_fp8_input_store fp8_dot_product_attention
            fp8_multi_head_attention disable_parameter_transpose_cache store_param_remainders
            """,
        "activations that are kept for some micro-batches only are not modelled": """
            num_microbatches_with_partial_activation_checkpoints
            """,
        "whole layers whose activations wait in host memory are not modelled": """
            cpu_offloading cpu_offloading_double_buffering
            """,
        "precision that differs from layer to layer is not modelled": """
            use_kitchen quant_recipe
            """,
        "layers of a custom spec are not known": """
            transformer_layer_spec use_transformer_engine_full_layer_spec heterogeneous_block_specs
            dense_grouped_gemm use_inference_optimized_layers
            """,
        "ModelOpt's teachers, quantizers and speculative heads are not modelled": """
            restore_modelopt_state
            """,
        "this choice of Megatron-FSDP is not modelled": """
            fsdp_all_gather_in_start_param_sync megatron_fsdp_use_decoupled_grad
            megatron_fsdp_cuda_graph_mode
            """,
        "Megatron's layers before megatron-core are not modelled": """
            use_mcore_models
            """,
        "groups of ranks of one's own are not modelled": """
            use_decentralized_pg eval_context_parallel_size use_layer_wise_distributed_optimizer
            """,
    }.items()
    for word in words.split()
}
"""Why such a field is not read."""

CONFIG_DEFAULTS = {
    "cpu_offloading": False,
    "fsdp_all_gather_in_start_param_sync": True,
    "store_param_remainders": True,
    "use_mcore_models": True,
}
"""Values of such fields that the dataclasses have by themselves; the others are false."""
