"""Sections, fields and options of Megatron-Bridge, and what becomes of each.

Sources: src/megatron/bridge/training/config.py, mixed_precision.py and models/gpt_provider.py of
Megatron-Bridge, and its scripts/training/run_recipe.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECTIONS = ("model", "train", "optimizer", "ddp", "dist", "mixed_precision", "comm_overlap")
"""Sections whose fields have the names of arguments."""
IRRELEVANT_SECTIONS = (
    "checkpoint",
    "ft",
    "inprocess_restart",
    "logger",
    "nvrx_straggler",
    "optimizer_config_override_provider",
    "profiling",
    "rerun_state_machine",
    "rng",
    "scheduler",
    "straggler",
    "tokenizer",
    "validation",
)
IRRELEVANT_DATASET = frozenset(
    word
    for words in (
        """
        add_extra_token_to_sequence blend blend_per_split chat_template data_path data_sharding
        data_parallel_size dataloader_load dataloader_save dataloader_type dataset_kwargs
        dataset_name dataset_root defer_npy_index_mmap do_test do_validation drop_last
        enable_offline_packing
        drop_last_partial_validation_sequence eod_mask_loss fast_cache_load full_validation
        hf_dataset hf_output_root hf_rewrite hf_test_dataset hf_validation_dataset
        hf_validation_proportion max_train_samples memmap_workers mid_level_dataset_surplus
        mmap_bin_files mock multiple_validation_sets num_dataset_builder_threads num_workers
        object_storage_cache_path offline_packing_specs path_to_cache persistent_workers pin_memory
        preprocessing random_seed reset_attention_mask reset_position_ids seed sequences_per_dataset
        skip_getting_attention_mask_from_dataset split split_matrix token_dtype_code tokenizer
        trust_remote_code allow_ambiguous_pad_tokens _target_
        """,
    )
    for word in words.split()
)
"""A pack of samples has as many tokens as one of the whole length at most (PackedSequenceSpecs)."""
IRRELEVANT_PARTS = ("model.generation_config.",)
USUAL_SPECS = (
    "megatron.bridge.models.gpt_provider.default_layer_spec",
    "megatron.bridge.models.gpt_provider.transformer_engine_layer_spec",
)
"""Functions that make the layers of megatron-core with TransformerEngine."""
UNSUPPORTED_SECTIONS = {
    "peft": "of what is trained in place of the weights, LoRA alone is modelled under Megatron",
    "tensor_inspect": "tensors that are kept for inspection are not modelled",
}
FIELDS = {
    "dataset.create_attention_mask": "create_attention_mask_in_dataloader",
    "dataset.seq_length": "seq_length",
    "dataset.sequence_length": "seq_length",
    "validation.eval_micro_batch_size": "eval_micro_batch_size",
}
"""Fields that stand under another name, or that count though their section does not."""
IN_SYNC: Mapping[str, tuple[str, ...]] = {
    "use_distributed_optimizer": ("ddp", "optimizer"),
    "overlap_param_gather": ("ddp", "optimizer"),
    "use_megatron_fsdp": ("dist", "ddp"),
}
"""Fields that two sections have, of which either switches both on."""
UNSUPPORTED_FIELDS = {
    "model.kd_config": "a teacher beside the model is not modelled",
    "model.teacher": "a teacher beside the model is not modelled",
}
FREEZES: Mapping[str, str] = {
    "model.freeze_language_model": "language_model",
    "model.freeze_vision_model": "vision_tower",
    "model.freeze_audio_model": "vision_tower",
    "model.freeze_vision_projection": "multi_modal_projector",
    "model.freeze_audio_projection": "multi_modal_projector",
}
"""Switches of models that see or hear (freeze), and what they freeze."""
OF_TOWERS = (
    *("model.vision_config", "model.audio_config", "model.vision_projector_config"),
    *("model.hf_config", "model.hf_text_config", "model.return_dict", "model.mm_tokens_per_image"),
    *("model.image_token_id", "model.video_token_id", "model.audio_token_id"),
    *("model.vision_start_token_id", "model.vision_end_token_id", "model.vision_token_id"),
    *("model.bos_token_id", "model.eos_token_id", "model.mrope_section", "model.patch_size"),
    *("model.temporal_patch_size", "model.in_channels", "model.spatial_merge_size"),
    *("model.num_position_embeddings", "model.out_hidden_size", "model.deepstack_visual_indexes"),
    "model.language_max_sequence_length",
)
"""What such a model's config.json says of its tower and of tokens, where the Hub has that model."""
MODEL_IDS = ("model.hf_model_id", "model.hf_path", "hf_path", "hf_model_id")

NEMOTRON_H: Mapping[str, Any] = {
    "bf16": True,
    "grad_reduce_in_fp32": True,
    "fp8": "hybrid",
    "fp8_recipe": "tensorwise",
    "fp8_param_gather": True,
    "first_last_layers_bf16": True,
    "num_layers_at_start_in_bf16": 2,
    "num_layers_at_end_in_bf16": 2,
}
PRECISIONS: Mapping[str, Mapping[str, Any]] = {
    "bf16_mixed": {"bf16": True, "grad_reduce_in_fp32": True},
    "fp16_mixed": {"fp16": True, "grad_reduce_in_fp32": False},
    "bf16_with_fp8_delayed_scaling_mixed": {
        "bf16": True,
        "grad_reduce_in_fp32": True,
        "fp8": "hybrid",
        "fp8_recipe": "delayed",
        "fp8_param_gather": True,
    },
    "bf16_with_mxfp8_mixed": {
        "bf16": True,
        "grad_reduce_in_fp32": True,
        "fp8": "e4m3",
        "fp8_recipe": "mxfp8",
        "fp8_param_gather": True,
        "reuse_grad_buf_for_mxfp8_param_ag": True,
    },
    "bf16_with_fp8_current_scaling_mixed": {
        "bf16": True,
        "grad_reduce_in_fp32": True,
        "fp8": "hybrid",
        "fp8_recipe": "tensorwise",
        "fp8_param_gather": True,
        "first_last_layers_bf16": True,
        "num_layers_at_start_in_bf16": 1,
        "num_layers_at_end_in_bf16": 1,
    },
    "nemotron_h_bf16_with_fp8_current_scaling_mixed": NEMOTRON_H,
    "nanov2_bf16_with_fp8_current_scaling_mixed": {**NEMOTRON_H, "fp8_recipe": "blockwise"},
    "bf16_with_fp8_subchannel_scaling_mixed": {
        "bf16": True,
        "grad_reduce_in_fp32": True,
        "fp8": "hybrid",
        "fp8_recipe": "blockwise",
    },
    "bf16_with_nvfp4_mixed": {"bf16": True, "grad_reduce_in_fp32": True, "fp4": "e2m1"},
}
"""What the recipes of mixed precision set."""

DIFFERING: Mapping[str, Any] = {
    "create_attention_mask_in_dataloader": False,
    "cross_entropy_loss_fusion": True,
    "data_parallel_sharding_strategy": "no_shard",
    "kv_lora_rank": 512,
    "num_layers_at_end_in_bf16": 0,
    "num_layers_at_start_in_bf16": 0,
    "q_lora_rank": 512,
}
"""Defaults of the dataclasses that differ from those of Megatron-LM's arguments."""

OF_A_BRIDGE: Mapping[str, Any] = {"attention_dropout": 0.0, "hidden_dropout": 0.0}
"""Defaults of a model that AutoBridge makes of one on the Hub: its bridge, or the provider that it
fills, drops nothing between layers, and of attention what the config.json says, which is nothing
of those that recipes name. Source: models/conversion/model_bridge.py (CONFIG_MAPPING), and
models/*/*_bridge.py.
"""

OPTIONS = {
    "-cp": "model.context_parallel_size",
    "-ep": "model.expert_model_parallel_size",
    "-etp": "model.expert_tensor_parallel_size",
    "-gb": "train.global_batch_size",
    "-mb": "train.micro_batch_size",
    "-ms": "train.train_iters",
    "-pp": "model.pipeline_model_parallel_size",
    "-sl": "dataset.seq_length",
    "-tp": "model.tensor_model_parallel_size",
    "-vp": "model.virtual_pipeline_model_parallel_size",
    "--context_parallel_size": "model.context_parallel_size",
    "--expert_model_parallel_size": "model.expert_model_parallel_size",
    "--expert_tensor_parallel_size": "model.expert_tensor_parallel_size",
    "--global_batch_size": "train.global_batch_size",
    "--hf-path": "hf_path",
    "--hf_path": "hf_path",
    "--lr": "optimizer.lr",
    "--max_steps": "train.train_iters",
    "--micro_batch_size": "train.micro_batch_size",
    "--min_lr": "optimizer.min_lr",
    "--pipeline_model_parallel_size": "model.pipeline_model_parallel_size",
    "--pretrained_checkpoint": "checkpoint.pretrained_checkpoint",
    "--save_dir": "checkpoint.save",
    "--load_dir": "checkpoint.load",
    "--save_interval": "checkpoint.save_interval",
    "--seq_length": "dataset.seq_length",
    "--tensor_model_parallel_size": "model.tensor_model_parallel_size",
    "--virtual_pipeline_model_parallel_size": "model.virtual_pipeline_model_parallel_size",
    "--warmup_iters": "scheduler.lr_warmup_iters",
}
"""Options of its scripts that stand for an override."""
FILE_OPTIONS = ("--config-file", "--config_file", "--config", "--yaml_file")
RECIPE_OPTIONS = ("--recipe", "--recipe_name", "--model", "--mode")
"""Options that name a recipe together; of a mode alone nothing follows."""
IRRELEVANT_OPTIONS = (
    "--config-path",
    "--dataset",
    "--step",
    "--step_func",
    "--step-func",
    "--debug",
    "--dump-env",
    "--dump_env",
    "--dry-run",
    "--dry_run",
    "--dryrun",
)
