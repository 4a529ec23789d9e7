"""What becomes of each key of verl's PPO trainer.

Sources: verl/trainer/config/ppo_trainer.yaml (composed) at v0.2 to v0.7.0 and b178a3c (2026-01-29),
workers/fsdp_workers.py and workers/actor/dp_actor.py there. Keys that decide together are in no
table: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
FSDP = f"{ACTOR}.fsdp_config"
OPTIMIZER = f"{ACTOR}.optim"

STRATEGIES: Mapping[str, str] = {"fsdp": "fsdp1", "fsdp2": "fsdp2"}
DTYPES: Mapping[str, str] = {
    "fp32": "fp32",
    "float32": "fp32",
    "bf16": "bf16",
    "bfloat16": "bf16",
}
WITHOUT_CRITIC = {
    "gpg",
    "grpo",
    "grpo_passk",
    "grpo_vectorized",
    "opo",
    "optimal_token_baseline",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "rloo",
    "rloo_vectorized",
    "tir_optimal_token_baseline",
}
"""Estimators of the advantage that need no value of a critic."""

ALWAYS_ENTROPY = ("v0.2", "v0.2.0", "v0.3.0")
"""Releases that compute the entropy whatever its coefficient is."""
PADS = ("v0.2", "v0.2.0", "v0.3.0", "v0.4.0", "v0.4.1", "v0.5.0", "v0.6.0", "v0.6.1")
"""Releases that keep padding unless they are told to remove it."""
LATEST = "v0.7.0"
RELEASES = (*PADS, LATEST)

SECTIONS = (
    "critic",
    "custom_reward_function",
    "global_profiler",
    "hydra",
    "ray_init",
    "ray_kwargs",
    "reward",
    "reward_manager",
    "reward_model",
    "transfer_queue",
    "actor_rollout_ref.actor.checkpoint",
    "actor_rollout_ref.actor.policy_loss",
    "actor_rollout_ref.actor.profiler",
    "actor_rollout_ref.actor.wrap_policy",
    "actor_rollout_ref.actor.fsdp_config.wrap_policy",
    "actor_rollout_ref.model.fused_kernel_options",
    "actor_rollout_ref.profiler",
    "actor_rollout_ref.ref",
)
"""Sections whose keys do not change the memory of the actor's update, but for those that `read`
asks for. The weights of the reference model always wait in host memory (CPUOffload)."""


def _keys(section: str, names: str) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for name in names.split())


IRRELEVANT = (
    _keys(
        ACTOR, "clip_ratio clip_ratio_c clip_ratio_high clip_ratio_low data_loader_seed grad_clip"
    )
    | _keys(ACTOR, "kl_loss_coef kl_loss_type loss_agg_mode loss_scale_factor ppo_epochs rollout_n")
    | _keys(ACTOR, "shuffle tau_neg tau_pos use_kl_loss use_torch_compile")
    | _keys(ACTOR, "entropy_checkpointing entropy_from_logits_with_chunking")
    | _keys(ACTOR, "sum_pi_squared_checkpointing router_replay.record_file")
    | _keys(ACTOR, "router_replay.replay_file")
    | _keys(FSDP, "param_offload optimizer_offload grad_offload use_orig_params seed forward_only")
    | _keys(FSDP, "entropy_checkpointing entropy_from_logits_with_chunking use_torch_compile")
    | _keys(FSDP, "strategy")
    | _keys(
        OPTIMIZER, "betas clip_grad lr lr_scheduler_type lr_warmup_steps min_lr_ratio num_cycles"
    )
    | _keys(OPTIMIZER, "lr_warmup_steps_ratio total_training_steps warmup_style weight_decay")
    | _keys(MODEL, "custom_chat_template lora_alpha lora_adapter_path tokenizer_path")
    | _keys(MODEL, "trust_remote_code use_shm tiled_mlp.num_shards mtp.detach_encoder mtp.method")
    | _keys(MODEL, "mtp.enable_rollout mtp.enable_train mtp.mtp_loss_scaling_factor")
    | _keys(MODEL, "mtp.num_speculative_tokens mtp.speculative_algorithm")
    | _keys(MODEL, "mtp.speculative_eagle_topk mtp.speculative_num_draft_tokens")
    | _keys(MODEL, "mtp.speculative_num_steps")
    | _keys(
        "algorithm",
        "gamma kl_ctrl.horizon kl_ctrl.kl_coef kl_ctrl.target_kl kl_ctrl.type "
        "kl_penalty lam norm_adv_by_std_in_grpo pf_ppo.reweight_method "
        "pf_ppo.weight_pow rollout_correction.bypass_mode rollout_correction.loss_type "
        "rollout_correction.rollout_is rollout_correction.rollout_is_batch_normalize "
        "rollout_correction.rollout_is_threshold rollout_correction.rollout_rs "
        "rollout_correction.rollout_rs_threshold "
        "rollout_correction.rollout_rs_threshold_lower "
        "rollout_correction.rollout_token_veto_threshold rollout_is rollout_is_level "
        "rollout_is_mode rollout_is_threshold rollout_is_threshold_lower "
        "rollout_is_veto_threshold use_kl_in_reward use_pf_ppo",
    )
    | _keys(
        "data",
        "apply_chat_template_kwargs custom_cls.name custom_cls.path datagen.name "
        "datagen.path dataloader_num_workers filter_overlong_prompts "
        "filter_overlong_prompts_workers gen_batch_size image_key image_patch_size "
        "prompt_key return_full_prompt return_multi_modal_inputs return_raw_chat "
        "return_raw_input_ids reward_fn_key sampler.class_name sampler.class_path seed "
        "shuffle tokenizer tool_config_path train_batch_size train_files "
        "train_max_samples truncation trust_remote_code use_shm val_batch_size "
        "val_files val_max_samples validation_shuffle video_key",
    )
    | _keys(
        "trainer",
        "balance_batch controller_nsight_options.cuda-graph-trace "
        "controller_nsight_options.cuda-memory-usage controller_nsight_options.trace "
        "critic_warmup default_hdfs_dir default_local_dir del_local_ckpt_after_load "
        "device esi_redundant_time experiment_name log_val_generations logger "
        "max_actor_ckpt_to_keep max_critic_ckpt_to_keep npu_profile.options.analysis "
        "npu_profile.options.level npu_profile.options.record_shapes "
        "npu_profile.options.save_path npu_profile.options.with_cpu "
        "npu_profile.options.with_memory npu_profile.options.with_module "
        "npu_profile.options.with_npu npu_profile.options.with_stack profile_steps "
        "project_name ray_wait_register_center_timeout remove_previous_ckpt_in_save "
        "resume_from_path resume_mode rollout_data_dir save_freq test_freq total_epochs "
        "total_training_steps use_legacy_worker_impl val_before_train "
        "val_generations_to_log_to_wandb val_only validation_data_dir "
        "worker_nsight_options.capture-range worker_nsight_options.capture-range-end "
        "worker_nsight_options.cuda-graph-trace worker_nsight_options.cuda-memory-usage "
        "worker_nsight_options.kill worker_nsight_options.trace",
    )
    | _keys(
        ROLLOUT,
        "agent.agent_loop_config_path agent.custom_async_server.name "
        "agent.custom_async_server.path agent.default_agent_loop agent.num_workers "
        "calculate_log_probs chat_scheduler checkpoint_engine.backend "
        "checkpoint_engine.engine_kwargs "
        "checkpoint_engine.update_weights_bucket_megabytes cudagraph_capture_sizes "
        "data_parallel_size disable_log_stats do_sample dtype enable_chunked_prefill "
        "enable_prefix_caching enable_rollout_routing_replay enforce_eager "
        "engine_kwargs.sglang engine_kwargs.sglang.attention_backend "
        "engine_kwargs.trtllm engine_kwargs.vllm "
        "engine_kwargs.vllm.disable_mm_preprocessor_cache engine_kwargs.vllm.swap_space "
        "expert_parallel_size ignore_eos layered_summon load_format "
        "log_prob_max_token_len_per_gpu log_prob_micro_batch_size "
        "log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz logprobs_mode "
        "max_model_len max_num_batched_tokens max_num_seqs mode mtp multi_stage_wake_up "
        "multi_turn.completion_callback multi_turn.enable multi_turn.format "
        "multi_turn.interaction_config_path multi_turn.max_assistant_turns "
        "multi_turn.max_parallel_calls multi_turn.max_tool_response_length "
        "multi_turn.max_turns multi_turn.max_user_turns multi_turn.num_repeat_rollouts "
        "multi_turn.tokenization_sanity_check_mode multi_turn.tool_config_path "
        "multi_turn.tool_response_truncate_side multi_turn.use_inference_chat_template "
        "name over_sample_rate pipeline_model_parallel_size profiler.all_ranks "
        "profiler.enable profiler.ranks profiler.save_path profiler.tool "
        "profiler.tool_config prometheus.enable prometheus.file prometheus.port "
        "prometheus.served_model_name prompt_length quantization "
        "quantization_config_file response_length scheduling_policy skip_dump_dir "
        "skip_rollout skip_tokenizer_init temperature tensor_model_parallel_size top_k "
        "top_p trace.backend trace.max_samples_per_step_per_worker trace.token2text "
        "update_weights_bucket_megabytes use_fire_sampling val_kwargs.do_sample "
        "val_kwargs.n val_kwargs.temperature val_kwargs.top_k val_kwargs.top_p",
    )
    | {"actor_rollout_ref.nccl_timeout"}
)
"""Keys that do not change the memory of the actor's update. What param_offload and
optimizer_offload keep in host memory between updates is on the card for them."""

WITHOUT_EFFECT: Mapping[str, Sequence[Any]] = {
    f"{ACTOR}.calculate_sum_pi_squared": (False,),
    f"{ACTOR}.freeze_vision_tower": (False,),
    f"{ACTOR}.router_replay.mode": ("disabled",),
    f"{ACTOR}.use_prefix_grouper": (False,),
    f"{FSDP}.forward_prefetch": (False,),
    f"{FSDP}.full_determinism": (False,),
    f"{FSDP}.offload_policy": (False,),
    f"{OPTIMIZER}.optimizer_impl": ("torch.optim",),
    f"{OPTIMIZER}.override_optimizer_config": (None, {}),
    f"{MODEL}.enable_activation_offload": (False,),
    f"{MODEL}.exclude_modules": (None,),
    f"{MODEL}.external_lib": (None,),
    f"{MODEL}.hf_config_path": (None,),
    f"{MODEL}.mtp.enable": (False,),
    f"{MODEL}.override_config": ({}, None),
    f"{MODEL}.tiled_mlp.enabled": (False,),
    f"{MODEL}.use_liger": (False,),
    "actor_rollout_ref.hybrid_engine": (True,),
}

UNSUPPORTED: Mapping[str, str] = {
    f"{ACTOR}.calculate_sum_pi_squared": "sums of squared probabilities are not modelled",
    f"{ACTOR}.freeze_vision_tower": "activations of vision towers are not modelled",
    f"{ACTOR}.router_replay.mode": "replayed routing is not modelled",
    f"{ACTOR}.use_prefix_grouper": "shared prefixes are not modelled",
    f"{FSDP}.forward_prefetch": "gathering two units ahead is not modelled",
    f"{FSDP}.full_determinism": "deterministic kernels take other workspaces",
    f"{FSDP}.offload_policy": "weights and optimizer states in host memory are not modelled under "
    "FSDP2",
    f"{OPTIMIZER}.optimizer_impl": "optimizers other than torch.optim's are not modelled",
    f"{OPTIMIZER}.override_optimizer_config": "arguments of an optimizer of one's own may change "
    "its states",
    f"{MODEL}.enable_activation_offload": "verl's own offloading of activations is not modelled",
    f"{MODEL}.exclude_modules": "adapters by exclusion are not modelled",
    f"{MODEL}.external_lib": "code of one's own may change the model",
    f"{MODEL}.hf_config_path": "give /model in overrides",
    f"{MODEL}.mtp.enable": "multi-token prediction under FSDP is not modelled",
    f"{MODEL}.override_config": "give /model in overrides",
    f"{MODEL}.tiled_mlp.enabled": "feed-forward networks in tiles are not modelled",
    f"{MODEL}.use_liger": "Liger's kernels without its loss are not modelled",
    "actor_rollout_ref.hybrid_engine": "verl runs the hybrid engine only",
}
