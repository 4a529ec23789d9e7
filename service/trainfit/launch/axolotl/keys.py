"""Keys of axolotl's YAML."""

from __future__ import annotations

from trainfit.launch.names import Keys, names
from trainfit.launch.transformers.keys import NOTHING, OFF

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

SWITCHES = {
    "fp8": "fp8 under accelerate is not modelled",
    "float32": "weights in fp32 by this switch are not modelled",
    "layer_offloading": "layers on the host are not modelled",
    "use_pose": "positions that are left out are not modelled",
    "flash_attn_cross_entropy": "what this loss keeps is not modelled",
    "flash_attn_fuse_mlp": "this fused MLP is not modelled",
    "flash_optimum": "BetterTransformer is not modelled",
    "s2_attention": "shifted sparse attention is not modelled",
    "scaling_softmax": "scaled softmax is not modelled",
    "quantize_moe_experts": "experts that are quantised are not modelled",
    "lora_mlp_kernel": "axolotl's kernels for LoRA are not modelled",
    "lora_qkv_kernel": "axolotl's kernels for LoRA are not modelled",
    "lora_o_kernel": "axolotl's kernels for LoRA are not modelled",
    "lora_embedding_kernel": "axolotl's kernels for LoRA are not modelled",
    "chunked_cross_entropy": "this chunked loss keeps all logits, which is not modelled",
    "cut_cross_entropy": "Cut Cross-Entropy is not modelled",
    "use_eaft": "what this loss keeps is not modelled",
    "tiled_mlp": "MLPs in tiles are not modelled",
    "llama4_linearized_experts": "experts as linears are not modelled",
    "deepcompile": "DeepSpeed's compiler is not modelled",
    "fp32_norms": "norms that are wider than the rest are not modelled",
    "peft_use_dora": "the norms of decomposed weights are not modelled",
    "gptq": "weights of GPTQ are not modelled",
    "relora": "ReLoRA is not modelled",
    "reward_model": "a loss over pairs of samples is not modelled",
    "process_reward_model": "a loss over steps of samples is not modelled",
    "resize_token_embeddings_to_32x": "give the config.json with its rows",
    "auto_find_batch_size": "the batch is found by running out of memory",
    "use_onebitllms": "weights of one bit are not modelled",
    "use_kernels": "kernels of the Hub are not modelled",
    "generate_samples": "a key-value cache of generation is not modelled",
    "do_causal_lm_eval": "a key-value cache of generation is not modelled",
    "do_bench_eval": "a key-value cache of generation is not modelled",
    "skip_prepare_dataset": "samples are then not cut to sequence_len",
    "peft_autocast_adapter_dtype": "adapters are widened unless told otherwise",
}
"""Switches that change memory when they are on."""

GIVEN = {
    "lora_target_parameters": "adapters of stacked experts are not modelled",
    "lora_rank_pattern": "adapters of several ranks are not modelled",
    "peft_layers_to_transform": "adapters of some layers are not modelled",
    "peft_layers_pattern": "adapters of some layers are not modelled",
    "peft_layer_replication": "layers that are repeated are not modelled",
    "peft_trainable_token_indices": "rows of the embedding that are trained are not modelled",
    "lora_model_dir": "adapters that are loaded decide their own rank and modules",
    "bnb_config_kwargs": "only axolotl's own way of bitsandbytes is modelled",
    "bnb_config_kwargs.": "only axolotl's own way of bitsandbytes is modelled",
    "lisa_n_layers": "layers that are trained in turn are not modelled",
    "tokens.": "rows that are added to the embedding are not modelled",
    "tokens": "rows that are added to the embedding are not modelled",
    "added_tokens_overrides": "give the config.json with its rows",
    "experts_implementation": "only one implementation of experts is modelled",
    "trl": "the loops of reinforcement learning are not modelled",
    "trl.": "the loops of reinforcement learning are not modelled",
    "vllm": "an engine of inference beside training is not modelled",
    "vllm.": "an engine of inference beside training is not modelled",
    "ebft.": "this loop is not modelled",
    "qat.": "quantisation in training is not modelled",
    "model_quantization_config": "weights that are quantised in this way are not modelled",
    "model_quantization_config_kwargs": "weights that are quantised in this way are not modelled",
    "selective_checkpointing": "checkpoints of some operations are not modelled here",
    "selective_checkpointing.": "checkpoints of some operations are not modelled here",
    "optim_args": "options of an optimizer may change its states",
    "optim_args.": "options of an optimizer may change its states",
    "optim_target_modules": "goes with optimizers that are not modelled",
    "overrides_of_model_config": "give the changed config.json as /model/hf_config in overrides",
    "overrides_of_model_config.": "give the changed config.json as /model/hf_config in overrides",
    "overrides_of_model_kwargs": "an argument of from_pretrained that no list has",
    "overrides_of_model_kwargs.": "an argument of from_pretrained that no list has",
    "gpu_memory_limit": "a model that is spread over devices is not modelled",
    "max_memory": "a model that is spread over devices is not modelled",
    "ddp_bucket_cap_mb": "only DDP's own size of a bucket is modelled",
    "batch_size": "give gradient_accumulation_steps in its place",
    "eval_sequence_len": "evaluation on longer samples is not modelled",
    "large_head_attention": "what this kernel of attention keeps is not modelled",
    "gemma4_hybrid_attn_impl": "what this kernel of attention keeps is not modelled",
    "fused_attn_kernel": "what this kernel of attention keeps is not modelled",
    "trainer_cls": "a trainer of one's own is not modelled",
    "torch_compile_options": "options of the compiler are not modelled",
    "torch_compile_options.": "options of the compiler are not modelled",
}
"""Keys that change memory when they are given."""

KEYS = Keys(
    names("""
strict resume_from_checkpoint auto_resume_from_checkpoints mean_resizing_embeddings
shrink_embeddings embeddings_skip_upcast reinit_weights dynamic_checkpoint dynamic_checkpoint.
center_rewards_coefficient num_labels dpo_use_weighting dpo_label_smoothing precompute_ref_log_probs
dpo_use_liger_kernel dpo_padding_free dpo_loss_type dpo_loss_weights dpo_beta dpo_norm_loss
dpo_use_logits_to_keep dpo_generate_during_eval rpo_alpha datasets test_datasets dataset_config
shuffle_merged_datasets shuffle_before_merging_datasets dataset_prepared_path dataset_shard_num
dataset_shard_idx num_dataset_shards_to_save pretraining_dataset dataset_processes dataset_num_proc
dataset_exact_deduplication dataset_keep_in_memory dataloader_pin_memory dataloader_num_workers
dataloader_prefetch_factor dataloader_drop_last remove_unused_columns push_dataset_to_hub
hf_use_auth_token device device_map world_size local_rank ddp seed ddp_timeout ddp_broadcast_buffers
ddp_find_unused_parameters eval_causal_lm_metrics bench_dataset bench_split metric_for_best_model
greater_is_better loss_watchdog_threshold loss_watchdog_patience gc_steps torch_empty_cache_steps
gc_collect_steps tf32 fp8_enable_fsdp_float8_all_gather gradient_checkpointing_kwargs
gradient_checkpointing_kwargs. excess_length_strategy min_sample_len max_prompt_len
sample_packing_group_size sample_packing_bin_size sample_packing_sequentially
sample_packing_mp_start_method eval_sample_packing pad_to_sequence_len curriculum_sampling
multipack_real_batches batch_flattening pose_split_on_token_ids pose_max_context_len
pose_num_chunks pretrain_multipack_buffer_size pretrain_multipack_attn
pretraining_sample_concatenation streaming streaming_multipack_buffer_size flex_attn_compile_kwargs
flex_attn_compile_kwargs. scaling_softmax_factor scaling_softmax_bias flash_attn_rms_norm
flash_attn_d512 sdpa_varlen chunked_cross_entropy_num_chunks eaft_alpha eaft_k tiled_mlp_num_shards
tiled_mlp_use_original_mlp fp32_norm_classes fsdp_final_state_dict_type val_set_size heads_k_stride
ring_attn_func special_tokens special_tokens. max_steps warmup_steps warmup_ratio eval_steps
evals_per_epoch save_steps saves_per_epoch save_strategy save_total_limit save_first_step
logging_steps early_stopping_patience load_best_model_at_end save_only_model use_tensorboard
profiler_steps profiler_steps_start include_tokens_per_second include_tkps neftune_noise_alpha
noisy_embedding_alpha orpo_alpha simpo_gamma cpo_alpha kto_desirable_weight kto_undesirable_weight
rl_beta low_cpu_mem_usage chat_template chat_template_jinja chat_template_kwargs
chat_template_kwargs. eot_tokens default_system_message fix_untrained_tokens is_preprocess
preprocess_iterable total_num_tokens total_supervised_tokens sample_packing_eff_est
axolotl_config_path is_falcon_derived_model is_llama_derived_model is_mistral_derived_model
is_qwen_derived_model num_generation_samples generation_max_new_tokens generation_temperature
generation_top_p generation_top_k generation_prompt_ratio generation_do_sample train_on_inputs
group_by_length learning_rate embedding_lr embedding_lr_scale weight_decay torchdistx_path
lr_scheduler lr_scheduler_kwargs lr_scheduler_kwargs. lr_quadratic_warmup cosine_min_lr_ratio
cosine_constant_lr_ratio lr_div_factor lr_groups adam_epsilon adam_epsilon2 adam_beta1 adam_beta2
adam_beta3 dion_lr dion_momentum dion_rank_fraction dion_rank_multiple_of qgalore_rank
qgalore_update_proj_gap qgalore_scale qgalore_proj_type qgalore_proj_quant qgalore_proj_bits
qgalore_proj_group_size qgalore_cos_threshold qgalore_gamma_proj qgalore_queue_size max_grad_norm
num_epochs jagged_restart_steps jagged_restart_warmup_steps jagged_restart_anneal_steps lora_alpha
lora_fan_in_fan_out lora_alpha_pattern peft peft. peft_use_rslora peft_init_lora_weights
peft_ensure_weight_tying qlora_sharded_model_loading lora_on_cpu loraplus_lr_ratio
loraplus_lr_embedding merge_lora merge_method relora_prune_ratio relora_prune_method
relora_cpu_offload lisa_step_interval lisa_layers_attribute base_model_config cls_model_config
tokenizer_config tokenizer_use_fast tokenizer_legacy tokenizer_use_mistral_common tokenizer_type
processor_type processor_kwargs processor_kwargs. tokenizer_save_jinja_files trust_remote_code
experimental_skip_move_to_device output_dir hub_model_id hub_strategy hub_revision save_safetensors
quantization quantization. rope_scaling eval_table_size eval_max_new_tokens max_packed_sequence_len
type_of_model model_type use_mlflow mlflow_tracking_uri mlflow_experiment_name mlflow_run_name
hf_mlflow_log_artifacts use_wandb wandb_name wandb_run_id wandb_mode wandb_project wandb_entity
wandb_watch wandb_log_model use_comet comet_api_key comet_workspace comet_project_name
comet_experiment_key comet_mode comet_online comet_experiment_config comet_experiment_config.
gradio_title gradio_share gradio_server_name gradio_server_port gradio_max_new_tokens
gradio_temperature use_ray ray_run_name resources_per_worker resources_per_worker. use_otel_metrics
otel_metrics_host otel_metrics_port use_trackio trackio_project_name trackio_run_name
trackio_space_id image_size image_resize_algorithm role_boundaries use_swanlab swanlab_project
swanlab_experiment_name swanlab_mode swanlab_workspace swanlab_api_key debug local_rank
lora_fan_in_fan_out wandb_run_name wandb_log_steps save_on_each_node hub_private_repo
accelerator_config.dispatch_batches accelerator_config.even_batches
liger_use_token_scaling is_multimodal xformers_attention_off
"""),
    {
        **dict.fromkeys(SWITCHES, OFF),
        **dict.fromkeys(GIVEN, NOTHING),
        "peft_autocast_adapter_dtype": (True, None),
        "experts_implementation": (None, "grouped_mm"),
        "accelerator_config": NOTHING,
        "activation_offloading": OFF,
        "plugins": ([], None),
    },
    {
        **SWITCHES,
        **GIVEN,
        "accelerator_config.": "an option of accelerate that no list has",
    },
)
"""Packed samples fill a batch up to sequence_len each, as padded ones are priced too."""
