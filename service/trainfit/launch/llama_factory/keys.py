"""Keys of LLaMA-Factory beside those of TrainingArguments."""

from __future__ import annotations

from trainfit.launch.names import Keys, names
from trainfit.launch.transformers.keys import NOTHING, OFF, TRAINER

RENAMED = {
    "cutoff_len": "max_length",
    "lora_rank": "lora_r",
    "lora_target": "lora_target_modules",
    "additional_target": "lora_modules_to_save",
    "enable_liger_kernel": "use_liger_kernel",
    "double_quantization": "use_bnb_nested_quant",
    "evaluation_strategy": "eval_strategy",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "fsdp_min_num_params": "fsdp_config.min_num_params",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
    "max_length": "generated_length",
    "activation_checkpointing": "gradient_checkpointing",
}
"""Arguments that mean what another tool's do, and the name that they are read by here."""

SWITCHES = {
    "use_unsloth": "Unsloth's kernels and offloading are not modelled",
    "use_unsloth_gc": "checkpoints that wait on the host are not modelled",
    "shift_attn": "shifted sparse attention is not modelled",
    "use_galore": "GaLore's projections are not modelled",
    "use_apollo": "APOLLO's projections are not modelled",
    "use_badam": "blocks that are trained in turn are not modelled",
    "use_adam_mini": "the states of Adam-mini are not modelled",
    "use_muon": "LLaMA-Factory's Muon is not modelled",
    "use_llama_pro": "blocks that are trained alone are not modelled",
    "use_dora": "the norms of decomposed weights are not modelled",
    "use_dft_loss": "what this loss keeps is not modelled",
    "use_asft_loss": "what this loss keeps is not modelled",
    "use_eaft_loss": "what this loss keeps is not modelled",
    "use_mca": "Megatron below LLaMA-Factory is not modelled; describe it as Megatron",
    "use_megatron_bridge": "Megatron below LLaMA-Factory is not modelled; describe it as Megatron",
    "use_hyper_parallel": "HyperParallel is not modelled",
    "use_kt": "experts on the host are not modelled",
    "use_v1_kernels": "these kernels are not modelled",
    "fp8": "fp8 under accelerate is not modelled",
    "upcast_layernorm": "norms that are wider than the rest are not modelled",
    "upcast_lmhead_output": "logits in fp32 besides are not modelled",
    "resize_vocab": "give the config.json with its rows",
    "enable_torch_profiler": "what the profiler keeps is not modelled",
}
"""Switches that change memory when they are on."""

GIVEN = {
    "mixture_of_depths": "layers that tokens skip are not modelled",
    "add_tokens": "rows that are added to the embedding are not modelled",
    "add_special_tokens": "rows that are added to the embedding are not modelled",
    "adapter_name_or_path": "adapters that are loaded decide their own rank and modules",
    "megatron_bridge_args": "Megatron below LLaMA-Factory is not modelled",
    "hyper_parallel_args": "HyperParallel is not modelled",
    "quantization_device_map": "a model that is spread over cards is not modelled",
    "kt_weight_path": "experts on the host are not modelled",
    "kt_expert_checkpoint_path": "experts on the host are not modelled",
    "kt_non_expert_weight_path": "experts on the host are not modelled",
}
"""Keys that change memory when they are given."""

KEYS = TRAINER | Keys(
    names("""
adapter_folder cache_dir device_map use_fast_tokenizer split_special_tokens
new_special_tokens_config
init_special_tokens low_cpu_mem_usage rope_scaling moe_aux_loss_coef use_reentrant_gc
train_from_scratch infer_backend offload_folder use_kv_cache infer_dtype hf_hub_token ms_hub_token
om_hub_token print_param_status trust_remote_code image_max_pixels image_min_pixels
image_do_pan_and_scan crop_to_patches video_max_pixels video_min_pixels video_fps video_maxlen
use_audio_in_video audio_sampling_rate export_dir export_size export_device
export_quantization_bit export_quantization_dataset export_quantization_nsamples
export_quantization_maxlen export_legacy_format export_hub_model_id vllm_maxlen vllm_gpu_util
vllm_enforce_eager vllm_max_lora_rank vllm_config sglang_maxlen sglang_mem_fraction sglang_tp_size
sglang_config sglang_lora_backend kt_cpu_activation kt_use_lora_experts kt_lora_expert_num
kt_lora_expert_intermediate_size template dataset eval_dataset dataset_dir media_dir
train_on_prompt mask_history streaming buffer_size mix_strategy interleave_probs overwrite_cache
preprocessing_batch_size preprocessing_num_workers max_samples eval_num_beams
ignore_pad_token_for_loss val_size eval_on_each_dataset packing neat_packing tool_format
default_system enable_thinking preserve_thinking tokenized_path data_shared_file_system
reserved_label_len force_multi_turn lora_alpha loraplus_lr_ratio loraplus_lr_embedding use_rslora
pissa_init pissa_iter pissa_convert create_new_adapter pref_beta pref_ftx pref_bco_weight pref_loss
dpo_label_smoothing kto_chosen_weight kto_rejected_weight simpo_gamma ppo_buffer_size ppo_epochs
ppo_score_norm ppo_target ppo_whiten_rewards ref_model ref_model_adapters
ref_model_quantization_bit reward_model reward_model_adapters reward_model_quantization_bit
reward_model_type ld_alpha galore_target galore_rank galore_update_interval galore_scale
galore_proj_type galore_layerwise apollo_target apollo_rank apollo_update_interval apollo_scale
apollo_proj apollo_proj_type apollo_scale_type apollo_layerwise apollo_scale_front badam_mode
badam_start_block badam_switch_mode badam_switch_interval badam_update_ratio badam_mask_mode
badam_verbose use_swanlab swanlab_project swanlab_workspace swanlab_run_name swanlab_mode
swanlab_api_key swanlab_logdir swanlab_lark_webhook_url swanlab_lark_secret asft_alpha eaft_alpha
compute_accuracy disable_shuffling early_stopping_steps plot_loss
include_effective_tokens_per_second ray_run_name ray_storage_path ray_storage_filesystem
resources_per_worker resources_per_worker. placement_strategy ray_init_kwargs ray_init_kwargs.
master_addr master_port fp8_backend fp8_enable_fsdp_float8_all_gather profiler_output_dir
profiler_wait_steps profiler_warmup_steps profiler_active_steps profiler_repeat
profiler_record_shapes profiler_profile_memory profiler_with_stack profile_modules
hyper_parallel_cp_size module_dropout oft_rank oft_block_size oft_target freeze_trainable_layers
freeze_trainable_modules freeze_extra_modules do_sample temperature top_p top_k num_beams
generated_length max_new_tokens repetition_penalty length_penalty skip_special_tokens
"""),
    {
        **dict.fromkeys(SWITCHES, OFF),
        **dict.fromkeys(GIVEN, NOTHING),
    },
    {**SWITCHES, **GIVEN},
)
"""Packed samples fill a batch up to cutoff_len each, with which padded ones are priced as well."""
