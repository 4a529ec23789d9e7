"""Which keys torchtitan has had, and what it did with the same keys, by release.

Sources: torchtitan/config_manager.py at 9dec370 (2024-12-26), before bbb1b61 (2025-04-02) and at
v0.1.0, config/job_config.py at 6fc499f (2025-08-14) and v0.2.0 to v0.2.2, config/configs.py and the
Config classes of components at b38bbde (2026-06-13) and b5bcd76 (2026-08-21).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from trainfit.launch.errors import Complaint, LaunchError

Sections = Mapping[str, str]
"""Names of keys by their section, with spaces between them."""


@dataclass(frozen=True, slots=True)
class TorchtitanRelease:
    name: str
    keys: frozenset[str]
    python: bool = False
    """Configured by Python functions, with options over them."""
    repeats_kv: bool = False
    """Attention copies keys and values to every query head (until 2026-01-27, ff0829c)."""
    units_apart: bool = True
    """The embedding, and norm with head, are FSDP units (since 2025-07-28, 83e6941)."""
    casts_alone: bool = True
    """Under DDP and on one GPU autocast narrows products (since 2025-06-16, 0b44d4c)."""
    always_fully_shards: bool = False
    """FSDP is there to narrow what it gathers even where one rank shares nothing out, in place of
    DDP and of autocast (since 2026-04-09, 00b7f56)."""
    collects_outputs: bool = False
    """A pipeline keeps the logits of the whole batch (until 2025-10-22, e5ef99a)."""
    weighs_ends: bool = True
    """Embedding and head count as layers where layers are split over stages."""
    compiles_loss: bool = True
    """compile.enable compiles the loss, too (since 2025-04-02, bbb1b61)."""
    remakes_attention: Literal["never", "on-blackwell", "always"] = "never"
    """Selective checkpointing does not keep what cuDNN's attention makes (until 2025-12-01,
    b39377f), which runs on Blackwell since 2025-05-14 (3b85aa3), and at v0.2.0 everywhere."""
    grows_segments: bool = True
    """Its run_train.sh makes segments grow. At v0.2.0 it says PYTORCH_ALLOC_CONF (since 2025-08-15,
    e629fe5), which PyTorch up to 2.9.1 ignores for CUDA (pytorch/pytorch issue 183387): what its
    pull request 1884 of that week reserved in a first and in later steps shows it."""
    fuses_qkv: bool = False
    """Queries, keys and values come from one product (since 2026-06-24, 3396a4b)."""
    vocabulary_of_debug_models: int = 2048
    """Rows of debug models; those of the test tokenizer with its special tokens until v0.1.0."""


def _keys(sections: Sections) -> frozenset[str]:
    return frozenset(
        f"{section}.{name}" for section, names in sections.items() for name in names.split()
    )


_2024_12 = _keys(
    {
        "job": "config_file description dump_folder print_args use_for_integration_test",
        "profiling": "enable_memory_snapshot enable_profiling profile_freq "
        "save_memory_snapshot_folder save_traces_folder",
        "metrics": "disable_color_printing enable_tensorboard enable_wandb log_freq rank_0_only "
        "save_tb_folder",
        "model": "flavor name norm_type tokenizer_path",
        "optimizer": "early_step_in_backward fused lr name",
        "training": "batch_size compile data_parallel_replicate_degree data_parallel_shard_degree "
        "dataset dataset_path deterministic disable_loss_parallel enable_cpu_offload gc_freq "
        "max_norm mixed_precision_param mixed_precision_reduce seed seq_len steps "
        "tensor_parallel_degree warmup_steps",
        "experimental": "context_parallel_degree context_parallel_rotate_method "
        "enable_async_tensor_parallel enable_compiled_autograd pipeline_parallel_degree "
        "pipeline_parallel_microbatches pipeline_parallel_schedule pipeline_parallel_schedule_csv "
        "pipeline_parallel_split_points",
        "checkpoint": "async_mode create_seed_checkpoint enable_checkpoint export_dtype folder "
        "interval interval_type keep_latest_k load_step model_weights_only",
        "activation_checkpoint": "mode selective_ac_option",
        "float8": "enable_float8_linear enable_fsdp_float8_all_gather "
        "precompute_float8_dynamic_scale_for_fsdp scaling_type_grad_output scaling_type_input "
        "scaling_type_weight",
        "comm": "init_timeout_seconds trace_buf_size train_timeout_seconds",
        "memory_estimation": "disable_fake_mode enabled",
    }
)

_0_1_0 = _2024_12 - _keys(
    {
        "metrics": "rank_0_only",
        "model": "norm_type",
        "optimizer": "fused",
        "training": "batch_size data_parallel_replicate_degree data_parallel_shard_degree "
        "disable_loss_parallel tensor_parallel_degree warmup_steps",
        "experimental": "context_parallel_degree context_parallel_rotate_method "
        "enable_async_tensor_parallel enable_compiled_autograd pipeline_parallel_degree "
        "pipeline_parallel_microbatches pipeline_parallel_schedule pipeline_parallel_schedule_csv "
        "pipeline_parallel_split_points",
        "checkpoint": "interval_type model_weights_only",
        "float8": "enable_float8_linear scaling_type_grad_output scaling_type_input "
        "scaling_type_weight",
    }
) | _keys(
    {
        "metrics": "save_for_all_ranks",
        "model": "converters print_after_conversion",
        "optimizer": "beta1 beta2 eps implementation weight_decay",
        "lr_scheduler": "decay_ratio decay_type lr_min warmup_steps",
        "training": "gc_debug global_batch_size local_batch_size",
        "parallelism": "context_parallel_degree context_parallel_rotate_method "
        "data_parallel_replicate_degree data_parallel_shard_degree disable_loss_parallel "
        "enable_async_tensor_parallel enable_compiled_autograd fsdp_reshard_after_forward "
        "pipeline_parallel_degree pipeline_parallel_layers_per_stage "
        "pipeline_parallel_microbatch_size pipeline_parallel_schedule "
        "pipeline_parallel_schedule_csv pipeline_parallel_split_points tensor_parallel_degree",
        "checkpoint": "exclude_from_loading initial_load_model_weights_only initial_load_path "
        "last_save_model_weights_only",
        "float8": "emulate filter_fqns force_recompute_fp8_weight_in_bwd recipe_name",
        "mx": "filter_fqns recipe_name use_fp8_dim1_cast_triton_kernel",
        "fault_tolerance": "enable fragment_sync_delay fragment_update_alpha group_size "
        "min_replica_size replica_id semi_sync_method should_quantize sync_steps",
        "experimental": "custom_args_module custom_import",
    }
)

_2025_03 = _0_1_0 - _keys(
    {
        "optimizer": "beta1 beta2 weight_decay",
        "training": "gc_debug global_batch_size local_batch_size",
        "parallelism": "pipeline_parallel_layers_per_stage pipeline_parallel_microbatch_size",
        "checkpoint": "initial_load_model_weights_only initial_load_path "
        "last_save_model_weights_only",
        "float8": "emulate filter_fqns",
        "mx": "filter_fqns recipe_name use_fp8_dim1_cast_triton_kernel",
        "fault_tolerance": "fragment_sync_delay fragment_update_alpha semi_sync_method "
        "should_quantize sync_steps",
    }
) | _keys(
    {
        "model": "norm_type use_flex_attn",
        "training": "batch_size",
        "parallelism": "pipeline_parallel_microbatches",
        "checkpoint": "model_weights_only",
    }
)

_2025_08 = _0_1_0 - _keys(
    {
        "lr_scheduler": "lr_min",
        "checkpoint": "initial_load_model_weights_only last_save_model_weights_only",
        "float8": "force_recompute_fp8_weight_in_bwd",
        "mx": "use_fp8_dim1_cast_triton_kernel",
        "fault_tolerance": "fragment_sync_delay fragment_update_alpha should_quantize sync_steps",
    }
) | _keys(
    {
        "model": "hf_assets_path",
        "lr_scheduler": "min_lr_factor",
        "parallelism": "expert_parallel_degree expert_tensor_parallel_degree "
        "module_fqns_per_model_part pipeline_parallel_first_stage_less_layers "
        "pipeline_parallel_last_stage_less_layers",
        "checkpoint": "enable_first_step_checkpoint initial_load_in_hf initial_load_model_only "
        "last_save_in_hf last_save_model_only",
        "activation_checkpoint": "per_op_sac_force_recompute_mm_shapes_by_fqns",
        "float8": "moe_fqns_prototype",
        "mx": "moe_fqns_prototype mxfp8_dim1_cast_kernel_choice",
        "comm": "save_traces_folder",
        "fault_tolerance": "process_group process_group_timeout_ms",
        "validation": "dataset dataset_path enabled freq local_batch_size seq_len steps",
    }
)

_0_2_0 = _0_1_0 - _keys(
    {
        "job": "print_args use_for_integration_test",
        "lr_scheduler": "lr_min",
        "training": "compile",
        "parallelism": "pipeline_parallel_split_points",
        "checkpoint": "enable_checkpoint initial_load_model_weights_only "
        "last_save_model_weights_only",
        "float8": "emulate enable_fsdp_float8_all_gather filter_fqns "
        "force_recompute_fp8_weight_in_bwd precompute_float8_dynamic_scale_for_fsdp recipe_name",
        "mx": "filter_fqns recipe_name use_fp8_dim1_cast_triton_kernel",
        "memory_estimation": "enabled",
        "fault_tolerance": "fragment_sync_delay fragment_update_alpha should_quantize sync_steps",
    }
) | _keys(
    {
        "job": "custom_config_module print_config",
        "profiling": "profiler_active profiler_warmup",
        "model": "hf_assets_path",
        "lr_scheduler": "min_lr_factor",
        "training": "debug_moe_force_load_balance dtype",
        "parallelism": "expert_parallel_degree expert_tensor_parallel_degree "
        "module_fqns_per_model_part pipeline_parallel_first_stage_less_layers "
        "pipeline_parallel_last_stage_less_layers",
        "checkpoint": "enable enable_first_step_checkpoint enable_ft_dataloader_checkpoints "
        "initial_load_in_hf initial_load_in_hf_quantized initial_load_model_only last_save_in_hf "
        "last_save_model_only load_only",
        "activation_checkpoint": "early_stop memory_budget "
        "per_op_sac_force_recompute_mm_shapes_by_fqns visualize_memory_budget_pareto",
        "compile": "backend components enable",
        "quantize.linear.float8": "emulate enable_fsdp_float8_all_gather filter_fqns "
        "precompute_float8_dynamic_scale_for_fsdp recipe_name",
        "quantize.linear.mx": "filter_fqns mxfp8_dim1_cast_kernel_choice recipe_name",
        "quantize.grouped_mm.float8": "fqns",
        "quantize.grouped_mm.mx": "fqns recipe_name",
        "comm": "save_traces_file_prefix save_traces_folder",
        "memory_estimation": "enable",
        "fault_tolerance": "process_group process_group_timeout_ms",
        "validation": "dataset dataset_path enable freq local_batch_size seq_len steps",
    }
)

_DATA_LOADER = "num_workers persistent_workers pin_memory prefetch_factor"

_0_2_1 = _0_2_0 - _keys(
    {
        "training": "debug_moe_force_load_balance deterministic seed",
        "parallelism": "enable_compiled_autograd",
    }
) | _keys(
    {
        "job": "save_config_file",
        "training.dataloader": _DATA_LOADER,
        "parallelism": "expert_parallel_comm_backend pipeline_parallel_expert_parallel_overlap",
        "activation_checkpoint": "debug determinism_check preserve_rng_state",
        "comm": "mode",
        "validation.dataloader": _DATA_LOADER,
        "debug": "deterministic deterministic_warn_only moe_force_load_balance seed",
    }
)

_0_2_2 = _0_2_1 | _keys(
    {"lr_scheduler": "total_steps", "parallelism": "context_parallel_load_balancer"}
)

_2026_06 = _keys(
    {
        "profiler": "enable_memory_snapshot enable_profiling memory_snapshot_max_entries "
        "profile_freq profiler_active profiler_repeat profiler_skip_first "
        "profiler_skip_first_wait profiler_warmup save_memory_snapshot_folder save_traces_folder",
        "metrics": "disable_color_printing enable_tensorboard enable_wandb log_freq "
        "save_for_all_ranks save_tb_folder",
        "dataloader": f"dataset dataset_path infinite seed {_DATA_LOADER}",
        "optimizer": "implementation param_groups",
        "lr_scheduler": "decay_ratio decay_type min_lr_factor total_steps warmup_steps",
        "training": "dtype enable_cpu_offload gc_debug gc_freq global_batch_size local_batch_size "
        "max_norm mixed_precision_param mixed_precision_reduce seq_len steps",
        "parallelism": "context_parallel_degree context_parallel_load_balancer "
        "context_parallel_rotate_method data_parallel_replicate_degree "
        "data_parallel_shard_degree disable_loss_parallel enable_async_tensor_parallel "
        "enable_fsdp_symm_mem enable_sequence_parallel expert_parallel_degree "
        "fsdp_reshard_after_forward module_fqns_per_model_part pipeline_parallel_degree "
        "pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers "
        "pipeline_parallel_layers_per_stage pipeline_parallel_microbatch_size "
        "pipeline_parallel_schedule pipeline_parallel_schedule_csv spmd_backend "
        "tensor_parallel_degree",
        "checkpoint": "async_mode create_seed_checkpoint enable enable_first_step_checkpoint "
        "exclude_from_loading export_dtype folder initial_load_in_hf initial_load_in_hf_quantized "
        "initial_load_model_only initial_load_path interval keep_latest_k last_save_in_hf "
        "last_save_model_only load_only load_step",
        "activation_checkpoint": "debug determinism_check early_stop memory_budget mode "
        "per_op_sac_force_recompute_mm_shapes_by_fqns preserve_rng_state "
        "visualize_memory_budget_pareto",
        "compile": "backend components enable",
        "comm": "init_timeout_seconds mode save_traces_file_prefix save_traces_folder "
        "trace_buf_size train_timeout_seconds",
        "validator": "enable freq steps",
        "debug": "batch_invariant detect_anomaly deterministic deterministic_warn_only "
        "enable_structured_logging moe_force_load_balance print_config save_config_file seed "
        "spmd_typechecking",
        "override": "imports",
        "loss": "num_chunks",
    }
) | {"module", "config", "hf_assets_path", "dump_folder"}

_2026_08 = (
    _2026_06
    - _keys(
        {
            "dataloader": f"dataset dataset_path infinite {_DATA_LOADER}",
            "training": "global_batch_size local_batch_size seq_len",
            "parallelism": "context_parallel_rotate_method disable_loss_parallel "
            "enable_async_tensor_parallel pipeline_parallel_microbatch_size",
            "activation_checkpoint": "early_stop mode per_op_sac_force_recompute_mm_shapes_by_fqns",
        }
    )
    | _keys(
        {
            "profiler": "memory_snapshot_freq",
            "optimizer": "optimizer_factory_kwargs_by_name",
            "training": "disable_cuda_graphs max_context_length "
            "num_tokens_per_microbatch_per_dp_rank num_tokens_per_train_step",
            "parallelism": "context_parallel_ptrr_mask_key num_pp_microbatches",
            "activation_checkpoint": "force_recompute_mm_shapes_by_fqns",
            "compile": "enable_async_tensor_parallel",
        }
    )
    | {"activation_checkpoint"}
)

RELEASES: Sequence[TorchtitanRelease] = (
    TorchtitanRelease(
        "2024-12",
        _2024_12,
        repeats_kv=True,
        units_apart=False,
        casts_alone=False,
        collects_outputs=True,
        weighs_ends=False,
        compiles_loss=False,
        vocabulary_of_debug_models=2256,
    ),
    TorchtitanRelease(
        "2025-03",
        _2025_03,
        repeats_kv=True,
        units_apart=False,
        casts_alone=False,
        collects_outputs=True,
        weighs_ends=False,
        compiles_loss=False,
        vocabulary_of_debug_models=2256,
    ),
    TorchtitanRelease(
        "v0.1.0",
        _0_1_0,
        repeats_kv=True,
        units_apart=False,
        collects_outputs=True,
        remakes_attention="on-blackwell",
        vocabulary_of_debug_models=2256,
    ),
    TorchtitanRelease(
        "2025-08",
        _2025_08,
        repeats_kv=True,
        collects_outputs=True,
        remakes_attention="on-blackwell",
    ),
    TorchtitanRelease(
        "v0.2.0",
        _0_2_0,
        repeats_kv=True,
        collects_outputs=True,
        remakes_attention="always",
        grows_segments=False,
    ),
    TorchtitanRelease("v0.2.1", _0_2_1, repeats_kv=True),
    TorchtitanRelease("v0.2.2", _0_2_2),
    TorchtitanRelease("2026-06", _2026_06, python=True, always_fully_shards=True),
    TorchtitanRelease("2026-08", _2026_08, python=True, always_fully_shards=True, fuses_qkv=True),
)
"""From the oldest to the latest."""

RENAMED: Mapping[str, str] = {
    "training.batch_size": "training.local_batch_size",
    "training.data_parallel_replicate_degree": "parallelism.data_parallel_replicate_degree",
    "training.data_parallel_shard_degree": "parallelism.data_parallel_shard_degree",
    "training.tensor_parallel_degree": "parallelism.tensor_parallel_degree",
    "training.disable_loss_parallel": "parallelism.disable_loss_parallel",
    "training.compile": "compile.enable",
    "validation.enabled": "validation.enable",
    "mx.mxfp8_dim1_cast_kernel_choice": "quantize.linear.mx.mxfp8_dim1_cast_kernel_choice",
    "training.warmup_steps": "lr_scheduler.warmup_steps",
    "training.seed": "debug.seed",
    "training.deterministic": "debug.deterministic",
    "training.debug_moe_force_load_balance": "debug.moe_force_load_balance",
    "training.max_context_length": "training.seq_len",
    "experimental.context_parallel_degree": "parallelism.context_parallel_degree",
    "experimental.context_parallel_rotate_method": "parallelism.context_parallel_rotate_method",
    "experimental.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel",
    "experimental.enable_compiled_autograd": "parallelism.enable_compiled_autograd",
    "experimental.pipeline_parallel_degree": "parallelism.pipeline_parallel_degree",
    "experimental.pipeline_parallel_schedule": "parallelism.pipeline_parallel_schedule",
    "experimental.pipeline_parallel_schedule_csv": "parallelism.pipeline_parallel_schedule_csv",
    "experimental.pipeline_parallel_split_points": "parallelism.pipeline_parallel_split_points",
    "experimental.pipeline_parallel_microbatches": "parallelism.num_pp_microbatches",
    "parallelism.pipeline_parallel_microbatches": "parallelism.num_pp_microbatches",
    "compile.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel",
    "activation_checkpoint.force_recompute_mm_shapes_by_fqns": "activation_checkpoint."
    "per_op_sac_force_recompute_mm_shapes_by_fqns",
    "activation_checkpoint": "activation_checkpoint.mode",
    "float8.emulate": "quantize.linear.float8.emulate",
    "float8.enable_fsdp_float8_all_gather": "quantize.linear.float8.enable_fsdp_float8_all_gather",
    "float8.filter_fqns": "quantize.linear.float8.filter_fqns",
    "float8.precompute_float8_dynamic_scale_for_fsdp": "quantize.linear.float8."
    "precompute_float8_dynamic_scale_for_fsdp",
    "float8.recipe_name": "quantize.linear.float8.recipe_name",
    "mx.filter_fqns": "quantize.linear.mx.filter_fqns",
    "mx.recipe_name": "quantize.linear.mx.recipe_name",
    "checkpoint.enable_checkpoint": "checkpoint.enable",
    "memory_estimation.enabled": "memory_estimation.enable",
    "validator.enable": "validation.enable",
}
"""Keys of other times -> the names under which they are read here: v0.2.2's where it has them."""


@cache
def every_key() -> frozenset[str]:
    """The keys of all releases."""
    return frozenset[str]().union(*(each.keys for each in RELEASES))


def release_named(version: str) -> TorchtitanRelease:
    """The release of this name, with or without its v. Raises LaunchError with those there are."""
    for release in RELEASES:
        if version.removeprefix("v") == release.name.removeprefix("v"):
            return release
    known = ", ".join(release.name for release in RELEASES)
    raise LaunchError(Complaint(f"framework_version: of torchtitan {known} are known"))


def releases_with(keys: frozenset[str]) -> Sequence[TorchtitanRelease]:
    """The releases that have all these keys, else most of them, from the latest on; the latest
    alone where it is one of them. Those that are configured in Python are asked for by keys of
    their own.
    """
    python = bool(keys & {"module", "config"})
    order = [release for release in reversed(RELEASES) if release.python is python]
    most = max(len(keys & each.keys) for each in order)
    found = [each for each in order if len(keys & each.keys) == most]
    return found[:1] if found[0] is RELEASES[-1] else found
