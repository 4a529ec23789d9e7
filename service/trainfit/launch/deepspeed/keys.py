"""Keys of DeepSpeed's config. What decides memory is read by zero.py and by the modules of
transformers.
"""

from __future__ import annotations

from typing import Any

from trainfit.launch.names import Keys, names

OFF = (False, None, 0, "auto")
ZERO = "zero_optimization"

IRRELEVANT = names(f"""
_comment comment
gradient_clipping steps_per_print wall_clock_breakdown memory_breakdown dump_state vocabulary_size
optimizer.params optimizer.params. optimizer.legacy_fusion scheduler. zero_allow_untested_optimizer
zero_force_ds_cpu_optimizer prescale_gradients gradient_predivide_factor gradient_allreduce_op
dataloader_drop_last disable_allgather log_level seed managed_gradient_accumulation
use_data_before_expert_parallelism seq_parallel_communication_data_type
fp16.loss_scale fp16.initial_scale_power fp16.loss_scale_window fp16.hysteresis
fp16.consecutive_hysteresis fp16.min_loss_scale fp16.auto_cast fp16.loss_scale_raise_error
bf16.check_overflow bfloat16.check_overflow bf16.immediate_grad_update bf16.loss_scale
bf16.initial_scale_power bf16.loss_scale_window bf16.hysteresis bf16.min_loss_scale bf16.auto_cast
comms_logger. comms_config. tensorboard. wandb. csv_monitor. comet. monitor_config. flops_profiler.
timers. checkpoint. nebula. aio. async_io. datastates_ckpt. checkpoint_tag_validation
elasticity.max_train_batch_size elasticity.micro_batch_sizes elasticity.min_gpus
elasticity.max_gpus elasticity.min_time elasticity.version elasticity.prefer_larger_batch
elasticity.ignore_non_elastic_batch_info elasticity.model_parallel_size
elasticity.num_gpus_per_node
tensor_parallel.tp_overlap_comm
activation_checkpointing.number_checkpoints activation_checkpointing.profile
{ZERO}.reduce_scatter {ZERO}.allgather_partitions {ZERO}.use_multi_rank_bucket_allreduce
{ZERO}.load_from_fp32_weights {ZERO}.elastic_checkpoint {ZERO}.sub_group_size
{ZERO}.stage3_max_reuse_distance {ZERO}.stage3_gather_16bit_weights_on_model_save
{ZERO}.stage3_gather_fp16_weights_on_model_save {ZERO}.gather_16bit_weights_on_model_save
{ZERO}.max_reuse_distance {ZERO}.ignore_unused_parameters {ZERO}.round_robin_gradients
{ZERO}.pipeline_loading_checkpoint {ZERO}.override_module_apply {ZERO}.log_trace_cache_warnings
{ZERO}.enable_sanity_checks {ZERO}.memory_efficient_linear {ZERO}.stage3_allgather_sequential
{ZERO}.stage3_model_persistence_threshold {ZERO}.mics_hierarchical_params_gather
{ZERO}.save_muon_momentum_buffer_in_memory {ZERO}.cpu_offload_use_pin_memory {ZERO}.leaf_module.
{ZERO}.offload_optimizer.nvme_path {ZERO}.offload_optimizer.pin_memory
{ZERO}.offload_optimizer.buffer_count {ZERO}.offload_optimizer.buffer_size
{ZERO}.offload_optimizer.pipeline_read {ZERO}.offload_optimizer.pipeline_write
{ZERO}.offload_optimizer.pipeline {ZERO}.offload_optimizer.fast_init
{ZERO}.offload_optimizer.cpuadam_cores_perc
{ZERO}.offload_param.nvme_path {ZERO}.offload_param.pin_memory {ZERO}.offload_param.buffer_count
{ZERO}.offload_param.buffer_size {ZERO}.offload_param.max_in_cpu
""")
"""Keys of offload_* tune what the device of it switches on. A sub-group bounds what a step makes at
once of what is priced as made all at once; saving gathers one weight after the other."""

WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            f"{ZERO}.legacy_stage1",
            f"{ZERO}.zero_quantized_weights",
            f"{ZERO}.zero_quantized_nontrainable_weights",
            f"{ZERO}.zero_quantized_gradients",
            f"{ZERO}.stage3_module_granularity_threshold",
            f"{ZERO}.stage3_use_all_reduce_for_fetch_params",
            f"{ZERO}.zeropp_loco_param",
            f"{ZERO}.offload_param",
            f"{ZERO}.offload_optimizer",
            "sparse_gradients",
            "graph_harvesting",
            "amp.enabled",
            "torch_autocast.enabled",
            "eigenvalue.enabled",
            "progressive_layer_drop.enabled",
            "elasticity.enabled",
            "autotuning.enabled",
            "hybrid_engine.enabled",
            "curriculum_learning.enabled",
            "data_efficiency.enabled",
            "compile.enabled",
            "compile.deepcompile",
            "bf16.bf16_master_weights_and_grads",
            "bf16.bf16_optimizer_states",
            "fp16.fp16_master_weights_and_grads",
            "activation_checkpointing.partition_activations",
            "activation_checkpointing.cpu_checkpointing",
            "activation_checkpointing.contiguous_memory_optimization",
            "activation_checkpointing.synchronize_checkpoint_boundary",
        ),
        OFF,
    ),
    f"{ZERO}.offload_optimizer.ratio": (1, 1.0),
    f"{ZERO}.offload_optimizer.super_offload": (False,),
    f"{ZERO}.zero_hpz_partition_size": (*OFF, 1),
    "tensor_parallel.tp_size": (*OFF, 1),
    f"{ZERO}.mics_shard_size": (-1, None, 0),
    "communication_data_type": (None,),
    "data_types.grad_accum_dtype": (None,),
    "gradient_accumulation_dtype": (None,),
}

SECOND_COPY = "shards of their own within a node are not modelled"
OWN_CHECKPOINTS = "only models that call DeepSpeed's checkpointing themselves heed it"

UNSUPPORTED = {
    f"{ZERO}.offload_optimizer": "has to be a section of keys",
    f"{ZERO}.offload_param": "has to be a section of keys",
    f"{ZERO}.offload_optimizer.ratio": "a part of the states on the host is not modelled",
    f"{ZERO}.offload_optimizer.super_offload": "SuperOffload is not modelled",
    f"{ZERO}.legacy_stage1": "the first stage of old releases is not modelled",
    f"{ZERO}.zero_quantized_weights": "quantised exchange is not modelled",
    f"{ZERO}.zero_quantized_nontrainable_weights": "quantised exchange is not modelled",
    f"{ZERO}.zero_quantized_gradients": "quantised exchange is not modelled",
    f"{ZERO}.zeropp_loco_param": "quantised exchange is not modelled",
    f"{ZERO}.zeropp_loco_param.": "quantised exchange is not modelled",
    f"{ZERO}.zero_hpz_partition_size": SECOND_COPY,
    f"{ZERO}.mics_shard_size": SECOND_COPY,
    f"{ZERO}.zenflow": "ZenFlow is not modelled",
    f"{ZERO}.zenflow.": "ZenFlow is not modelled",
    f"{ZERO}.stage3_module_granularity_threshold": "fetching by modules is not modelled",
    f"{ZERO}.stage3_use_all_reduce_for_fetch_params": "fetching by all-reduce is not modelled",
    "sparse_gradients": "sparse gradients are not modelled",
    "graph_harvesting": "CUDA graphs are not modelled",
    "amp.": "apex is not modelled",
    "torch_autocast.": "DeepSpeed's autocast is not modelled; bf16 is",
    "eigenvalue.": "eigenvalues are not modelled",
    "progressive_layer_drop.": "layers that are dropped are not modelled",
    "elasticity.": "the batch is then chosen by DeepSpeed",
    "autotuning.": "stage and batch are then chosen by DeepSpeed",
    "hybrid_engine.": "an engine of inference beside training is not modelled",
    "curriculum_learning.": "sequences that grow are not modelled; price the longest",
    "data_efficiency.": "sequences that grow are not modelled; price the longest",
    "compile.": "DeepSpeed's compiler is not modelled",
    "compression_training.": "compression is not modelled",
    "quantize_training.": "quantisation in training is not modelled",
    "sparse_attention.": "sparse attention is not modelled",
    "pipeline.": "DeepSpeed's pipelines are not modelled",
    "tensor_parallel.": "of tensor parallelism only autotp_size is modelled",
    "expert_parallel.": "expert parallelism under DeepSpeed is not modelled",
    "weight_quantization.": "quantised weights are not modelled",
    "zero_quantized_": "quantised exchange is not modelled",
    "bf16.bf16_master_weights_and_grads": "masters in bf16 are not modelled",
    "bf16.bf16_optimizer_states": "moments in bf16 under DeepSpeed are not modelled",
    "fp16.fp16_master_weights_and_grads": "masters in fp16 are not modelled",
    "communication_data_type": "gradients are then reduced in copies of another type",
    "data_types.grad_accum_dtype": "gradients are then kept in another type than the weights",
    "activation_checkpointing.partition_activations": OWN_CHECKPOINTS,
    "activation_checkpointing.cpu_checkpointing": OWN_CHECKPOINTS,
    "activation_checkpointing.contiguous_memory_optimization": OWN_CHECKPOINTS,
    "activation_checkpointing.synchronize_checkpoint_boundary": OWN_CHECKPOINTS,
}

KEYS = Keys(IRRELEVANT, WITHOUT_EFFECT, UNSUPPORTED)
