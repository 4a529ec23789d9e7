"""Keys of TrainingArguments, of TRL's configs and of the scripts beside them.

Read from transformers 4.36 to 5.23 (training_args.py), TRL 0.9.6 to 1.9.0 (sft_config.py,
dpo_config.py, model_config.py, scripts/utils.py) and the scripts of transformers' examples, open-r1
and alignment-handbook. What decides memory is read by the modules beside this; which release has
which key is told by `changes`.
"""

from __future__ import annotations

from typing import Any

from trainfit.launch.names import Keys, names

OFF = (False, "False", "false", None, 0, "0")
NOTHING: tuple[Any, ...] = (None, "", "None", "none", False, {}, [])

IRRELEVANT = names("""
output_dir overwrite_output_dir do_train do_predict prediction_loss_only
eval_accumulation_steps eval_delay eval_steps eval_do_concat_batches eval_on_start
eval_use_gather_object batch_eval_metrics include_inputs_for_metrics include_for_metrics
learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm num_train_epochs
max_steps lr_scheduler_type lr_scheduler_kwargs lr_scheduler_kwargs. warmup_ratio warmup_steps
log_level log_level_replica log_on_each_node logging_dir logging_strategy logging_first_step
logging_steps logging_nan_inf_filter save_strategy save_steps save_total_limit save_safetensors
save_on_each_node save_only_model restore_callback_states_from_checkpoint seed data_seed
bf16_full_eval fp16_full_eval jit_mode_eval tf32 local_rank ddp_backend ddp_timeout ddp_static_graph
ddp_find_unused_parameters ddp_broadcast_buffers debug skip_memory_metrics ray_scope
dataloader_drop_last dataloader_num_workers dataloader_prefetch_factor dataloader_pin_memory
dataloader_persistent_workers dataloader_in_order dataloader_multiprocessing_context
run_name disable_tqdm remove_unused_columns label_names load_best_model_at_end
metric_for_best_model greater_is_better ignore_data_skip accelerator_config.dispatch_batches
accelerator_config.even_batches accelerator_config.use_seedable_sampler
accelerator_config.non_blocking accelerator_config.use_configured_state
accelerator_config.gradient_accumulation_kwargs.adjust_scheduler
accelerator_config.gradient_accumulation_kwargs.sync_with_dataloader dispatch_batches
group_by_length length_column_name train_sampling_strategy report_to project
trackio_space_id trackio_bucket_id trackio_static_space_id use_legacy_prediction_loop
push_to_hub resume_from_checkpoint hub_model_id hub_strategy hub_token hub_private_repo
hub_always_push hub_revision push_to_hub_model_id push_to_hub_organization push_to_hub_token
include_tokens_per_second include_num_input_tokens_seen average_tokens_across_devices
neftune_noise_alpha torch_empty_cache_steps enable_jit_checkpoint use_cache
gradient_checkpointing_kwargs gradient_checkpointing_kwargs. activation_checkpointing_kwargs
activation_checkpointing_kwargs. fp16_opt_level sortish_sampler generation_max_length
generation_num_beams generation_config
""")
"""TrainingArguments and Seq2SeqTrainingArguments. Noise on embeddings (neftune) is made in place of
them; emptying the cache of the allocator lets go of what is not in use."""

WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "auto_find_batch_size",
            "full_determinism",
            "use_cpu",
            "no_cuda",
            "use_mps_device",
            "use_ipex",
            "adafactor",
            "accelerator_config.split_batches",
            "split_batches",
            "tpu_metrics_debug",
            "predict_with_generate",
        ),
        OFF,
    ),
    **dict.fromkeys(
        (
            "accelerator_config",
            "optim_args",
            "optim_target_modules",
            "tpu_num_cores",
            "mp_parameters",
            "ddp_bucket_cap_mb",
            "torchdynamo",
            "liger_kernel_config",
            "sharded_ddp",
        ),
        NOTHING,
    ),
    "label_smoothing_factor": (0, 0.0, "0", "0.0", None),
    "past_index": (-1, "-1"),
    "_n_gpu": (-1, 0, 1),
    "half_precision_backend": ("auto", "amp", "cuda_amp"),
    "fp16_backend": ("auto", "amp", "cuda_amp"),
}

SPLIT = "the batch of a rank is then a share of the one that is set"

UNSUPPORTED = {
    "auto_find_batch_size": "the batch is found by running out of memory",
    "full_determinism": "deterministic kernels take workspaces of their own",
    "use_cpu": "no GPU is used",
    "no_cuda": "no GPU is used",
    "use_mps_device": "no CUDA device is used",
    "use_ipex": "no CUDA device is used",
    "tpu_num_cores": "no GPU is used",
    "tpu_metrics_debug": "no GPU is used",
    "accelerator_config.split_batches": SPLIT,
    "split_batches": SPLIT,
    "accelerator_config": "its keys are in a file of their own; give them in place",
    "optim_args": "options of an optimizer may change its states",
    "optim_target_modules": "goes with optimizers that are not modelled",
    "label_smoothing_factor": "the smoothed loss keeps log-probabilities of its own",
    "past_index": "keeps states of an earlier step",
    "mp_parameters": "SageMaker's model parallelism is not modelled",
    "sharded_ddp": "fairscale's sharding is not modelled",
    "torchdynamo": "replaced by torch_compile_backend",
    "ddp_bucket_cap_mb": "only DDP's own size of a bucket is modelled",
    "half_precision_backend": "apex is not modelled",
    "fp16_backend": "apex is not modelled",
    "liger_kernel_config.": "Liger's kernels are modelled all together only",
    "liger_kernel_config": "Liger's kernels are modelled all together only",
    "predict_with_generate": "a key-value cache of generation is not modelled",
    "parallelism_config.": "give accelerate's parallelism_config, which has all of it",
    "model_init_kwargs.": "an argument of from_pretrained that no list has",
}

TRAINER = Keys(IRRELEVANT, WITHOUT_EFFECT, UNSUPPORTED)

SCRIPT = Keys(
    names("""
trust_remote_code model_code_revision tokenizer_name tokenizer_name_or_path tokenizer_revision
use_fast_tokenizer cache_dir token use_auth_token hf_token low_cpu_mem_usage device_map
chat_template chat_template_path system_prompt truncation_side padding_side
dataset_name dataset_config dataset_config_name dataset_train_split dataset_test_split
dataset_streaming dataset_split dataset_splits dataset_mixer dataset_mixer. dataset_mixture
dataset_mixture. dataset_configs dataset_columns dataset_text_field dataset_num_proc
dataset_batch_size dataset_kwargs dataset_kwargs.add_special_tokens
dataset_kwargs.append_concat_token datasets streaming test_split_size text_column columns_to_keep
auto_insert_empty_system_msg preprocessing_num_workers train_file validation_file test_file
data_path data_split data_output_path num_warmup_steps
max_train_samples max_eval_samples max_predict_samples validation_split_percentage keep_linebreaks
overwrite_cache ignore_bias_buffers benchmarks callbacks overwrite_hub_revision
push_to_hub_revision hub_model_revision wandb_entity wandb_project wandb_run_group
wandb_log_unique_prompts num_completions_to_print log_completions sanity_check
lora_alpha lora_task_type use_rslora trackio_project gradient_checkpointing_use_reentrant
cutoff_samples attn_softmax_bf16 lora_bias
lazy_preprocess image_folder dataset_path dataset_dir data_cache_dir eval_data_path
conversation_template with_tracking max_new_tokens
use_swanlab swanlab_project swanlab_workspace swanlab_run_name swanlab_experiment_name swanlab_mode
swanlab_api_key swanlab_logdir
"""),
    {
        "use_dora": OFF,
        "lora_target_parameters": NOTHING,
        "config_overrides": NOTHING,
        "config_name": NOTHING,
        "dataset_kwargs.skip_prepare_dataset": OFF,
        "lora_bias": ("none", None),
        "use_unsloth": OFF,
    },
    {
        "use_dora": "the norms of decomposed weights are not modelled",
        "lora_target_parameters": "adapters of stacked experts are not modelled",
        "config_overrides": "give the changed config.json as /model/hf_config in overrides",
        "config_name": "give the config.json itself",
        "dataset_kwargs.skip_prepare_dataset": "samples are then not cut to max_length",
        "accelerate_config": "send that config, and accelerate launch in the place of trl",
        "use_unsloth": "Unsloth's kernels and offloading are not modelled",
        "freeze_vision_tower": "what is frozen of a vision model is not modelled",
    },
)

SFT = Keys(
    names("""
eval_packing packing_strategy padding_free completion_only_loss assistant_only_loss truncation_mode
eos_token pad_token shuffle_dataset router_aux_loss_coef num_of_sequences chars_per_token
formatting_func max_seq_length_eval
"""),
)
"""Packed samples fill a batch up to max_length each, with which padded ones are priced as well."""

DPO = Keys(
    names("""
beta loss_type loss_weights label_smoothing label_pad_token_id padding_value truncation_mode
max_prompt_length max_completion_length max_target_length disable_dropout f_divergence_type
f_alpha_divergence_coef reference_free rpo_alpha ld_alpha discopop_tau use_weighting
ref_model_mixup_alpha ref_model_sync_steps sync_ref_model is_encoder_decoder model_adapter_name
ref_adapter_name force_use_ref_model precompute_ref_batch_size tools base_model_attribute_name
use_logits_to_keep padding_free router_aux_loss_coef pad_token optimize_cuda_cache
precompute_ref_eval_log_probs use_liger_loss use_num_logits_to_keep
"""),
    {"generate_during_eval": OFF},
    {
        "generate_during_eval": "a key-value cache of generation is not modelled",
        "ref_model_init_kwargs.": "the reference model is not modelled",
    },
)
"""What the preference loss itself keeps is refused as a whole."""

GENERATING = Keys(
    names("""
beta temperature top_p top_k min_p repetition_penalty num_generations num_generations_eval
num_iterations epsilon epsilon_high delta reward_funcs reward_weights scale_rewards loss_type
mask_truncated_completions max_prompt_length max_completion_length max_new_tokens
steps_per_generation
generation_batch_size shuffle_dataset ds3_gather_for_generation
use_vllm vllm_mode
vllm_gpu_memory_utilization vllm_server_host vllm_server_port vllm_server_timeout
vllm_server_base_url vllm_tensor_parallel_size vllm_max_model_length vllm_max_model_len vllm_device
vllm_dtype vllm_enable_prefix_caching vllm_guided_decoding_regex vllm_enable_sleep_mode
use_liger_loss importance_sampling_level top_entropy_quantile sync_ref_model ref_model_mixup_alpha
ref_model_sync_steps disable_dropout cosine_min_value_wrong cosine_max_value_wrong
cosine_min_value_correct cosine_max_value_correct cosine_max_len repetition_n_grams
repetition_max_penalty code_language code_provider code_eval_test_batch_size code_eval_scoring_mode
parallel_code_exec_per_proc dataset_prompt_column max_completion_len soft_punish_cache
e2b_router_url morph_router_url piston_endpoints ioi_provider kl_coef gamma lam vf_coef cliprange
cliprange_value whiten_rewards num_ppo_epochs num_mini_batches stop_token response_length
reward_model_path sft_model_path missing_eos_penalty total_episodes rloo_k vllm_importance_sampling
"""),
)
"""Of loops that are refused as a whole, which one key in the account says."""

DECIDING = names("""
bf16 fp16 dtype do_eval eval_strategy per_device_eval_batch_size attn_implementation
pad_to_multiple_of max_length cutoff_len block_size model_max_length seq_length seq_len
max_seq_len deepspeed deepspeed_config
""").names
"""Keys that decide memory where no other that decides the same counts before them."""

RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "torch_dtype": "dtype",
    "activation_checkpointing": "gradient_checkpointing",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "max_seq_length": "max_length",
    "use_liger": "use_liger_kernel",
    "model_init_kwargs.torch_dtype": "dtype",
    "model_init_kwargs.dtype": "dtype",
    "model_init_kwargs.attn_implementation": "attn_implementation",
    "model_init_kwargs.revision": "model_revision",
    "model_init_kwargs.use_cache": "use_cache",
    "model_init_kwargs.trust_remote_code": "trust_remote_code",
    "model_init_kwargs.device_map": "device_map",
    "base_model_revision": "model_revision",
    "peft_lora_r": "lora_r",
    "lora_rank": "lora_r",
    "peft_lora_alpha": "lora_alpha",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
    "fsdp_min_num_params": "fsdp_config.min_num_params",
}
"""Names that mean the same in another release or another script, and the one they are read by."""
