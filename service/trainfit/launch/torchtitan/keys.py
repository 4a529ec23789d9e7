"""What becomes of each key of torchtitan, under the names of `releases.RENAMED`.

Keys that decide together with others are in no table here: `read` asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainfit.specs.optimizers import choices

COPIED: Mapping[str, str] = {
    "training.seq_len": "/training/seq_length",
    "parallelism.tensor_parallel_degree": "/parallelism/tp",
    "parallelism.context_parallel_degree": "/parallelism/cp",
    "parallelism.pipeline_parallel_degree": "/parallelism/pp",
    "parallelism.expert_parallel_degree": "/parallelism/ep",
    "parallelism.enable_sequence_parallel": "/parallelism/sequence_parallel",
    "parallelism.fsdp_reshard_after_forward": "/framework/fsdp_reshard_after_forward",
    "optimizer.early_step_in_backward": "/training/optimizer/in_backward",
    "loss.num_chunks": "/training/loss/num_chunks",
}
"""A key -> the field of a job that means the same."""

DEFAULTS: Mapping[str, Any] = {
    "/training/seq_length": 2048,
    "/parallelism/tp": 1,
    "/parallelism/cp": 1,
    "/parallelism/pp": 1,
}
"""torchtitan's defaults of fields that keys are copied to."""

OPTIMIZERS = choices("torchtitan")
"""torchtitan's names -> the service's."""

ROTATE_METHODS: Mapping[str, str] = {"allgather": "all_gather", "alltoall": "p2p"}
"""How context-parallel ranks come by each other's keys: all at once, or in turn."""

SINGLE_STAGE_SCHEDULES: Mapping[str, str] = {"1F1B": "1f1b", "GPipe": "gpipe"}
MULTI_STAGE_SCHEDULES: Mapping[str, str] = {
    "Interleaved1F1B": "interleaved",
    "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "interleaved-zb",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}
"""Schedules of torch.distributed.pipelining -> the service's. Where no key says how many stages a
rank has, it has two of the latter."""

FLOAT8 = ("float8", "quantize.linear.float8")
"""Names of the converter that multiplies in fp8 and keeps for backward what it would in bf16."""
DEFAULT_RECIPE = "tensorwise"
FLOAT8_RECIPES: Mapping[str, str] = {"tensorwise": "tensorwise", "rowwise": "rowwise"}
"""How linears scale what they multiply, where a key says so, and where none does."""

DTYPES: Mapping[str, str] = {"float32": "fp32", "bfloat16": "bf16"}


def _keys(section: str, names: str) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for name in names.split())


IRRELEVANT = (
    _keys("job", "dump_folder description print_config print_args save_config_file")
    | _keys("job", "use_for_integration_test")
    | _keys("profiling", "enable_profiling save_traces_folder profile_freq profiler_active")
    | _keys("profiling", "profiler_warmup enable_memory_snapshot save_memory_snapshot_folder")
    | _keys("profiler", "enable_memory_snapshot enable_profiling memory_snapshot_freq")
    | _keys("profiler", "memory_snapshot_max_entries profile_freq profiler_active profiler_repeat")
    | _keys("profiler", "profiler_skip_first profiler_skip_first_wait profiler_warmup")
    | _keys("profiler", "save_memory_snapshot_folder save_traces_folder")
    | _keys("metrics", "log_freq enable_tensorboard disable_color_printing save_tb_folder")
    | _keys("metrics", "save_for_all_ranks enable_wandb rank_0_only")
    | _keys("model", "hf_assets_path tokenizer_path print_after_conversion use_flex_attn")
    | _keys("optimizer", "lr beta1 beta2 eps weight_decay")
    | _keys("lr_scheduler", "warmup_steps total_steps decay_ratio decay_type min_lr_factor lr_min")
    | _keys("training", "dataset dataset_path max_norm steps gc_freq gc_debug")
    | _keys("training.dataloader", "num_workers persistent_workers pin_memory prefetch_factor")
    | _keys("dataloader", "seed dataset dataset_path infinite num_workers persistent_workers")
    | _keys("dataloader", "pin_memory prefetch_factor")
    | _keys("parallelism", "context_parallel_ptrr_mask_key spmd_backend")
    | _keys("parallelism", "pipeline_parallel_expert_parallel_overlap")
    | _keys("checkpoint", "enable folder interval interval_type keep_latest_k load_step load_only")
    | _keys("checkpoint", "async_mode create_seed_checkpoint enable_first_step_checkpoint")
    | _keys("checkpoint", "enable_ft_dataloader_checkpoints exclude_from_loading export_dtype")
    | _keys("checkpoint", "initial_load_in_hf initial_load_in_hf_quantized initial_load_path")
    | _keys("checkpoint", "initial_load_model_only initial_load_model_weights_only")
    | _keys("checkpoint", "last_save_in_hf last_save_model_only last_save_model_weights_only")
    | _keys("checkpoint", "model_weights_only")
    | _keys("activation_checkpoint", "preserve_rng_state determinism_check debug memory_budget")
    | _keys("activation_checkpoint", "early_stop visualize_memory_budget_pareto")
    | _keys("comm", "init_timeout_seconds train_timeout_seconds trace_buf_size")
    | _keys("comm", "save_traces_folder save_traces_file_prefix")
    | _keys("memory_estimation", "enable disable_fake_mode")
    | _keys("fault_tolerance", "replica_id group_size min_replica_size process_group sync_steps")
    | _keys("fault_tolerance", "process_group_timeout_ms should_quantize fragment_sync_delay")
    | _keys("fault_tolerance", "fragment_update_alpha")
    | _keys("validation", "dataset dataset_path freq steps")
    | _keys("validation.dataloader", "num_workers persistent_workers pin_memory prefetch_factor")
    | _keys("validator", "freq steps")
    | _keys("debug", "seed deterministic_warn_only moe_force_load_balance print_config")
    | _keys("debug", "save_config_file enable_structured_logging spmd_typechecking")
    | {"hf_assets_path", "dump_folder"}
)
"""Keys that do not change the memory of a step. Checkpoints are written between steps; what
early_stop leaves out of a recomputed layer is its last product, gone before the layer's
backward."""

QUANTIZATION = (
    _keys("quantize.linear.mx", "filter_fqns mxfp8_dim1_cast_kernel_choice recipe_name")
    | _keys("quantize.grouped_mm.mx", "fqns recipe_name")
    | _keys("quantize.grouped_mm.float8", "fqns")
    | {"mx.use_fp8_dim1_cast_triton_kernel"}
)
"""Keys of converters; they change nothing, as model.converters has to name one to make it run."""

WITHOUT_EFFECT: Mapping[str, Sequence[Any]] = {
    "job.custom_config_module": ("",),
    "experimental.custom_import": ("",),
    "experimental.custom_args_module": ("",),
    "model.norm_type": ("rmsnorm",),
    "training.enable_cpu_offload": (False,),
    "training.disable_cuda_graphs": (True,),
    "parallelism.enable_async_tensor_parallel": (False,),
    "parallelism.enable_compiled_autograd": (False,),
    "parallelism.enable_fsdp_symm_mem": (False,),
    "parallelism.pipeline_parallel_schedule_csv": ("", None),
    "parallelism.context_parallel_load_balancer": ("headtail", None),
    "parallelism.expert_parallel_comm_backend": ("standard",),
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns": (
        ["moe.router.gate"],
        "moe.router.gate",
    ),
    "compile.backend": ("inductor",),
    "quantize.linear.float8.enable_fsdp_float8_all_gather": (False,),
    "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp": (False,),
    "quantize.linear.float8.emulate": (False,),
    "float8.force_recompute_fp8_weight_in_bwd": (False,),
    "float8.scaling_type_input": ("dynamic",),
    "float8.scaling_type_weight": ("dynamic",),
    "float8.scaling_type_grad_output": ("dynamic",),
    "comm.mode": ("default",),
    "fault_tolerance.enable": (False,),
    "fault_tolerance.semi_sync_method": (None,),
    "debug.deterministic": (False,),
    "debug.detect_anomaly": (False,),
    "debug.batch_invariant": (False,),
}

UNSUPPORTED: Mapping[str, str] = {
    "job.custom_config_module": "a module of one's own may change every default",
    "experimental.custom_import": "a module of one's own may change the model",
    "experimental.custom_args_module": "a module of one's own may change every default",
    "model.norm_type": "norms other than RMSNorm are not modelled under torchtitan",
    "training.enable_cpu_offload": "weights and optimizer states in host memory are not modelled "
    "under torchtitan",
    "training.disable_cuda_graphs": "captured graphs keep memory of their own",
    "parallelism.enable_async_tensor_parallel": "symmetric memory of tensor-parallel ranks is not "
    "modelled",
    "parallelism.enable_compiled_autograd": "a compiled backward keeps other tensors",
    "parallelism.enable_fsdp_symm_mem": "symmetric memory of FSDP is not modelled",
    "parallelism.pipeline_parallel_schedule_csv": "a schedule of one's own is not modelled",
    "parallelism.context_parallel_load_balancer": "only the balancing by heads and tails is "
    "modelled",
    "parallelism.expert_parallel_comm_backend": "DeepEP's buffers are not modelled",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns": "which products are made "
    "again is modelled for the default only",
    "compile.backend": "only inductor's graphs are modelled",
    "quantize.linear.float8.enable_fsdp_float8_all_gather": "weights that are gathered in fp8 are "
    "not modelled under torchtitan",
    "quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp": "weights that are gathered "
    "in fp8 are not modelled under torchtitan",
    "quantize.linear.float8.emulate": "emulated fp8 is not modelled",
    "float8.force_recompute_fp8_weight_in_bwd": "fp8 weights that are made again are not modelled",
    "float8.scaling_type_input": "delayed scaling is not modelled under torchtitan",
    "float8.scaling_type_weight": "delayed scaling is not modelled under torchtitan",
    "float8.scaling_type_grad_output": "delayed scaling is not modelled under torchtitan",
    "comm.mode": "only training over NCCL is modelled",
    "fault_tolerance.enable": "torchft's copies of the weights are not modelled",
    "fault_tolerance.semi_sync_method": "torchft's copies of the weights are not modelled",
    "debug.deterministic": "deterministic kernels take other workspaces",
    "debug.detect_anomaly": "anomaly detection keeps what forward made",
    "debug.batch_invariant": "batch-invariant kernels are not modelled",
    "optimizer.param_groups": "groups of parameters may have optimizers of their own",
    "optimizer.optimizer_factory_kwargs_by_name": "arguments of an optimizer of one's own may "
    "change its states",
    "override.imports": "code of one's own may change anything",
}
"""Keys that are not modelled at other values than those above."""
