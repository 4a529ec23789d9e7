"""Megatron-LM's arguments -> a job.

Arguments stand here under their names in Megatron-LM's namespace, whether they came from a command
line or a file. Those that become a field as they are stand in tables; those that decide together
have a function. What is not given has the default of the release.

Sources: validate_args and core_transformer_config_from_args of megatron/training/arguments.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from trainfit.launch.draft import Reading
from trainfit.launch.fields import as_field
from trainfit.launch.megatron.known import (
    CONFIG_DEFAULTS,
    CONFIG_IRRELEVANT,
    CONFIG_UNSUPPORTED,
    IRRELEVANT,
    UNSUPPORTED,
    WITHOUT_EFFECT,
)
from trainfit.launch.megatron.layer_flags import layer_flags
from trainfit.launch.megatron.options import Defaults, Parser
from trainfit.launch.settings import Setting
from trainfit.specs.training import OffloadModule, RecomputeModule

MODEL = {
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "ffn_hidden_size": "ffn_hidden_size",
    "kv_channels": "kv_channels",
    "normalization": "normalization",
    "position_embedding_type": "position_embedding_type",
    "max_position_embeddings": "max_position_embeddings",
    "untie_embeddings_and_output_weights": "untie_embeddings_and_output_weights",
    "swiglu": "swiglu",
    "add_bias_linear": "add_bias_linear",
    "add_qkv_bias": "add_qkv_bias",
    "qk_layernorm": "qk_layernorm",
    "attention_output_gate": "attention_output_gate",
    "multi_latent_attention": "multi_latent_attention",
    "mtp_num_layers": "mtp_num_layers",
}
EXPERTS = {
    "moe_router_topk": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "moe_shared_expert_intermediate_size": "moe_shared_expert_intermediate_size",
    "moe_shared_expert_gate": "moe_shared_expert_gate",
    "moe_latent_size": "moe_latent_size",
}
LATENT_ATTENTION = {
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_head_dim": "qk_head_dim",
    "qk_pos_emb_head_dim": "qk_pos_emb_head_dim",
    "v_head_dim": "v_head_dim",
}
PARALLELISM = {
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "expert_tensor_parallel_size": "etp",
    "num_virtual_stages_per_pipeline_rank": "vpp",
    "num_layers_per_virtual_pipeline_stage": "num_layers_per_virtual_pipeline_stage",
    "microbatch_group_size_per_vp_stage": "microbatch_group_size_per_vp_stage",
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split": "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split": "account_for_loss_in_pipeline_split",
    "pipeline_model_parallel_layout": "pipeline_model_parallel_layout",
    "num_distributed_optimizer_instances": "data_parallel_replicate_size",
    "hierarchical_context_parallel_sizes": "hierarchical_context_parallel_sizes",
}
RECOMPUTE = {
    "recompute_granularity": "granularity",
    "recompute_method": "method",
    "recompute_num_layers": "num_layers",
    "distribute_saved_activations": "distribute_saved_activations",
}
MOE = {
    "moe_token_dispatcher_type": "token_dispatcher_type",
    "moe_grouped_gemm": "grouped_gemm",
    "moe_permute_fusion": "permute_fusion",
    "moe_router_dtype": "router_dtype",
    "moe_expert_capacity_factor": "expert_capacity_factor",
    "moe_pad_expert_input_to_capacity": "pad_expert_input_to_capacity",
    "moe_shared_expert_overlap": "shared_expert_overlap",
}
FRAMEWORK = {
    "transformer_impl": "transformer_impl",
    "make_vocab_size_divisible_by": "make_vocab_size_divisible_by",
    "gradient_accumulation_fusion": "gradient_accumulation_fusion",
    "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather",
    "ddp_pad_buckets_for_high_nccl_busbw": "pad_buckets_for_high_nccl_busbw",
    "defer_embedding_wgrad_compute": "defer_embedding_wgrad_compute",
    "wgrad_deferral_limit": "wgrad_deferral_limit",
    "overlap_moe_expert_parallel_comm": "overlap_moe_expert_parallel_comm",
    "deterministic_mode": "deterministic_mode",
}
"""Arguments whose value is that of a field of the job."""

OTHER_DIMENSIONS = (
    "add_position_embedding",
    "encoder_num_layers",
    "group_query_attention",
    "moe_layer_freq",
    "num_experts",
    "num_query_groups",
    "pad_vocab_size",
    "padded_vocab_size",
    "quick_geglu",
    "squared_relu",
    "tokenizer_type",
    "use_rotary_position_embeddings",
    "vocab_size",
    "window_size",
)
"""Arguments of the model that are read together with others."""

OFFLOAD_MODULES = frozenset(get_args(OffloadModule))
RECOMPUTE_MODULES = frozenset(get_args(RecomputeModule))


def read_arguments(reading: Reading, defaults: Defaults) -> None:
    """Put a reading's arguments into its draft, and sort out those that are not read."""
    of_the_hub = reading.draft.get("/model/hf_id") is not None
    if of_the_hub:
        _leave_out_dimensions(reading)
    else:
        _read_model(reading, defaults)
    _read_parallelism(reading, defaults)
    _read_training(reading, defaults)
    _read_framework(reading, defaults)
    if not of_the_hub:
        _read_vocabulary(reading, defaults)
    latest = Parser(None).defaults()
    without_effect = {
        name: (defaults.get(name), latest.get(name), *WITHOUT_EFFECT.get(name, ()))
        for name in UNSUPPORTED
    }
    of_configs = {name: (CONFIG_DEFAULTS.get(name, False),) for name in CONFIG_UNSUPPORTED}
    reading.close(
        IRRELEVANT | CONFIG_IRRELEVANT,
        without_effect | of_configs,
        UNSUPPORTED | CONFIG_UNSUPPORTED,
    )


def _leave_out_dimensions(reading: Reading) -> None:
    """What changes the model that the Hub describes."""
    for name in (*MODEL, *EXPERTS, *LATENT_ATTENTION, *OTHER_DIMENSIONS):
        if (setting := reading.get(name)) is not None:
            why = "a dimension that differs from the model's config.json is not read"
            reading.draft.leave_out(setting, why)


def _read_model(reading: Reading, defaults: Defaults) -> None:
    spec = "/model/spec"
    _copy(reading, MODEL, spec)
    layers = "num_layers" in reading.settings
    _copy(reading, {"encoder_num_layers": "num_layers"}, spec, applies=not layers)
    _read_activation(reading)
    _read_positions(reading)
    if reading.value("group_query_attention"):
        _copy(reading, {"num_query_groups": "num_query_groups"}, spec)
        _default(reading, defaults, "num_query_groups", f"{spec}/num_query_groups")
    else:
        reading.get("num_query_groups")
    latent = bool(reading.value("multi_latent_attention"))
    _copy(reading, LATENT_ATTENTION, spec, applies=latent)
    if latent:
        _default(reading, defaults, "kv_lora_rank", f"{spec}/kv_lora_rank")
    experts = reading.value("num_experts") is not None
    _copy(reading, {"num_experts": "num_moe_experts"} | EXPERTS, spec, applies=experts)
    if experts:
        reading.copy("moe_layer_freq", f"{spec}/moe_layer_freq", layer_flags)
    else:
        reading.get("moe_layer_freq")


def _read_activation(reading: Reading) -> None:
    for name, activation in (("squared_relu", "squared_relu"), ("quick_geglu", "geglu")):
        setting = reading.get(name)
        if setting is not None and reading.value(name):
            reading.draft.put("/model/spec/activation_func", activation, setting)


def _read_positions(reading: Reading) -> None:
    pointer = "/model/spec/position_embedding_type"
    rotary = reading.get("use_rotary_position_embeddings")
    if rotary is not None and reading.value("use_rotary_position_embeddings"):
        reading.draft.put(pointer, "rope", rotary)
    absent = reading.get("add_position_embedding")
    without = absent is not None and not reading.value("add_position_embedding")
    if absent is not None and without and reading.draft.get(pointer) != "rope":
        reading.draft.complain(
            absent, "goes with rotary positions only; give --position-embedding-type none"
        )
    window = reading.get("window_size")
    if window is not None:
        sizes = [int(size) for size in re.findall(r"-?\d+", str(reading.value("window_size")))]
        if len(sizes) == 2 and sizes[0] > 0 and sizes[1] <= 0:
            reading.draft.put("/model/spec/window_size", sizes[0], window)
        else:
            reading.draft.leave_out(window, "is not the size of a causal window")


def _read_vocabulary(reading: Reading, defaults: Defaults) -> None:
    """The rows of the embedding are the tokenizer's, which only a null tokenizer counts itself."""
    draft = reading.draft
    padded, size = reading.get("padded_vocab_size"), reading.get("vocab_size")
    null = reading.value("tokenizer_type") == "NullTokenizer"
    unpadded = reading.get("pad_vocab_size")
    divisor = "/framework/make_vocab_size_divisible_by"
    if padded is not None:
        draft.put("/model/spec/vocab_size", reading.value("padded_vocab_size"), padded)
        draft.put(divisor, 1, padded)
    elif size is not None:
        end_of_document = null and defaults.before("core_v0.18.0")
        draft.put("/model/spec/vocab_size", reading.value("vocab_size") + end_of_document, size)
    if unpadded is not None and not reading.value("pad_vocab_size"):
        draft.put(divisor, 1, unpadded)
    if not draft.overridden("/model/hf_id"):
        draft.require(
            "/model/spec/vocab_size",
            "the size of the vocabulary is the tokenizer's, which is not read; give it as "
            'overrides {"model": {"spec": {"vocab_size": ...}}}, or as --vocab-size',
        )


def _read_parallelism(reading: Reading, defaults: Defaults) -> None:
    draft = reading.draft
    tp = "/parallelism/tp"
    _copy(reading, {"model_parallel_size": "tp"}, "/parallelism")
    _copy(reading, {"tensor_model_parallel_size": "tp"} | PARALLELISM, "/parallelism")
    sequence = reading.get("sequence_parallel")
    if sequence is not None:
        split = bool(reading.value("sequence_parallel")) and (draft.get(tp) or 1) > 1
        draft.put("/parallelism/sequence_parallel", split, sequence)
    _default(reading, defaults, "sequence_parallel", "/parallelism/sequence_parallel")
    _read_exchange(reading)
    _read_sharding(reading, defaults)


def _read_exchange(reading: Reading) -> None:
    """One way for all layers; a list may name one for each."""
    setting = reading.get("cp_comm_type")
    if setting is None:
        return
    value = reading.value("cp_comm_type")
    kinds = set(value) if isinstance(value, list) else {value}
    if len(kinds) == 1:
        _put(reading, setting, "/parallelism/cp_comm_type", kinds.pop())
    else:
        reading.draft.leave_out(setting, "layers that exchange in several ways are not modelled")


def _read_sharding(reading: Reading, defaults: Defaults) -> None:
    """Megatron-FSDP shares out what its strategy says, the distributed optimizer its states."""
    draft = reading.draft
    pointer = "/parallelism/data_parallel_sharding_strategy"
    strategy = reading.get("data_parallel_sharding_strategy")
    distributed = reading.get("use_distributed_optimizer")
    fsdp = reading.get("use_megatron_fsdp") or reading.get("use_custom_fsdp")
    if fsdp is not None and (
        reading.value("use_megatron_fsdp") or reading.value("use_custom_fsdp")
    ):
        by_default = defaults.get("data_parallel_sharding_strategy") or "no_shard"
        value = reading.value("data_parallel_sharding_strategy", by_default)
        draft.put(pointer, value, *(each for each in (fsdp, strategy) if each is not None))
        for name in ("ddp_bucket_size", "ddp_num_buckets"):
            if (bucket := reading.get(name)) is not None:
                draft.leave_out(bucket, "buffers of Megatron-FSDP are modelled at its own size")
    elif distributed is not None and reading.value("use_distributed_optimizer"):
        draft.put(pointer, "optim", distributed)
    elif reading.value("optimizer") == "dist_muon":
        draft.put(pointer, "optim", reading.settings["optimizer"])
    else:
        draft.default(pointer, "no_shard", defaults.name)
    for name in ("ddp_bucket_size", "ddp_num_buckets"):
        reading.get(name)


def _read_training(reading: Reading, defaults: Defaults) -> None:
    draft = reading.draft
    _copy(reading, {"batch_size": "micro_batch_size"}, "/training")
    _copy(reading, {"micro_batch_size": "micro_batch_size"}, "/training")
    _copy(reading, {"encoder_seq_length": "seq_length"}, "/training")
    _copy(reading, {"seq_length": "seq_length"}, "/training")
    _read_batch(reading, defaults)
    _read_precision(reading, defaults)
    _read_optimizer(reading)
    _read_recompute(reading)
    _read_offloading(reading)
    _read_attention(reading, defaults)
    _read_loss(reading)
    experts = reading.draft.get("/model/hf_id") or reading.value("num_experts") is not None
    _copy(reading, MOE, "/training/moe", applies=bool(experts))
    if experts:
        for name in ("moe_token_dispatcher_type", "moe_grouped_gemm", "moe_permute_fusion"):
            _default(reading, defaults, name, f"/training/moe/{MOE[name]}")
    draft.require("/training/micro_batch_size", "there is no --micro-batch-size")
    draft.require("/training/seq_length", "there is no --seq-length")


def _read_batch(reading: Reading, defaults: Defaults) -> None:
    """A step has one micro-batch unless it is told; of a schedule, the largest batch counts."""
    schedule = reading.get("step_batch_size_schedule")
    if reading.copy("global_batch_size", "/training/global_batch_size"):
        return
    if schedule is None:
        reading.draft.default("/training/num_microbatches", 1, defaults.name)
        return
    sizes = re.findall(r":(\d+)", str(schedule.value))
    if sizes:
        reading.draft.put("/training/global_batch_size", max(map(int, sizes)), schedule)
    else:
        reading.draft.complain(schedule, "must be starts and batch sizes: 0:384 200B:768")


def _read_precision(reading: Reading, defaults: Defaults) -> None:
    """bf16 accumulates gradients in fp32 unless told otherwise, fp16 in fp16."""
    pointer, draft = "/training/precision", reading.draft
    told = [
        setting
        for name in (
            "fp8",
            "bf16",
            "fp16",
            "fp8_recipe",
            "fp8_param_gather",
            "accumulate_allreduce_grads_in_fp32",
            "grad_reduce_in_bf16",
            "main_grads_dtype",
            "main_params_dtype",
        )
        if (setting := reading.get(name)) is not None
    ]
    precision = _dtypes(reading)
    if reading.value("fp8") is not None:
        precision["fp8_recipe"] = reading.value("fp8_recipe") or defaults.get("fp8_recipe")
        precision["fp8_param_gather"] = bool(reading.value("fp8_param_gather"))
    if precision.get("fp8_recipe") == "custom":
        draft.leave_out(reading.settings["fp8_recipe"], "a custom recipe is not modelled")
        del precision["fp8_recipe"]
    preset = next((name for name, dtypes in PRESETS.items() if dtypes == precision), None)
    if told:
        draft.put(pointer, preset or precision, *told)
    else:
        draft.default(pointer, preset or precision, defaults.name)


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "bf16": {"gradients": "fp32", "main_params": "fp32"},
    "fp16": {"params": "fp16", "compute": "fp16", "gradients": "fp16", "main_params": "fp32"},
    "fp32": {"params": "fp32", "compute": "fp32", "gradients": "fp32", "main_params": "fp32"},
}
"""The data types of a job's presets under Megatron."""


def _dtypes(reading: Reading) -> dict[str, Any]:
    without = "fp32" if reading.value("fp8") is None else "bf16"
    held = next((dtype for dtype in ("bf16", "fp16") if reading.value(dtype)), without)
    reduced = reading.value("grad_reduce_in_bf16") or reading.value("main_grads_dtype") == "bf16"
    gradients = held if held != "bf16" or reduced else "fp32"
    if reading.value("accumulate_allreduce_grads_in_fp32"):
        gradients = "fp32"
    main = reading.value("main_params_dtype") or "fp32"
    dtypes = {"gradients": gradients, "main_params": main}
    return dtypes if held == "bf16" else {"params": held, "compute": held} | dtypes


def _read_optimizer(reading: Reading) -> None:
    optimizer = "/training/optimizer"
    if reading.value("optimizer") == "dist_muon":
        reading.draft.put(f"{optimizer}/name", "muon", reading.settings["optimizer"])
    else:
        _copy(reading, {"optimizer": "name"}, optimizer)
    _copy(
        reading,
        {
            "exp_avg_dtype": "exp_avg_dtype",
            "exp_avg_sq_dtype": "exp_avg_sq_dtype",
            "use_precision_aware_optimizer": "precision_aware",
        },
        optimizer,
    )
    _copy(
        reading,
        {"sgd_momentum": "momentum"},
        optimizer,
        applies=reading.value("optimizer") == "sgd",
    )
    offload = reading.get("optimizer_cpu_offload")
    fraction = reading.get("optimizer_offload_fraction")
    if offload is not None and reading.value("optimizer_cpu_offload"):
        told = [offload] if fraction is None else [offload, fraction]
        share = reading.value("optimizer_offload_fraction", 1.0)
        reading.draft.put(f"{optimizer}/cpu_offload_fraction", share, *told)


def _read_recompute(reading: Reading) -> None:
    draft, recompute = reading.draft, "/training/recompute"
    for name in ("recompute_activations", "moe_layer_recompute"):
        setting = reading.get(name)
        if setting is not None and reading.value(name):
            draft.put(f"{recompute}/granularity", "selective", setting)
    _copy(reading, RECOMPUTE, recompute)
    modules, layer = reading.get("recompute_modules"), reading.get("moe_layer_recompute")
    named = reading.value("recompute_modules") or []
    told = [each for each in (modules, layer) if each is not None]
    if layer is not None and reading.value("moe_layer_recompute"):
        named = [*(named or ["core_attn"]), "moe"]
    if not named:
        return
    if unknown := sorted(set(named) - RECOMPUTE_MODULES):
        draft.leave_out(told[0], f"recompute of {', '.join(unknown)} is not modelled")
    else:
        draft.put(f"{recompute}/modules", named, *told)


def _read_offloading(reading: Reading) -> None:
    """Modules are offloaded where offloading is on."""
    modules = reading.get("offload_modules")
    switch = reading.get("fine_grained_activation_offloading")
    if modules is None or not reading.value("fine_grained_activation_offloading"):
        return
    if unknown := sorted(set(reading.value("offload_modules")) - OFFLOAD_MODULES):
        reading.draft.leave_out(modules, f"offloading of {', '.join(unknown)} is not modelled")
    elif switch is not None:
        told = reading.value("offload_modules")
        reading.draft.put("/training/offload_modules", told, modules, switch)


def _read_attention(reading: Reading, defaults: Defaults) -> None:
    """--use-flash-attn is the older way to ask for a kernel."""
    backend = "/training/attention/backend"
    flash = reading.get("use_flash_attn")
    _copy(reading, {"attention_backend": "backend"}, "/training/attention")
    chosen = reading.draft.get(backend) not in (None, "auto")
    if flash is not None and reading.value("use_flash_attn") and not chosen:
        reading.draft.put(backend, "flash", flash)
    _copy(reading, {"attention_dropout": "dropout"}, "/training/attention")
    _default(reading, defaults, "attention_dropout", "/training/attention/dropout")
    _copy(reading, {"hidden_dropout": "hidden_dropout"}, "/training")
    _default(reading, defaults, "hidden_dropout", "/training/hidden_dropout")


def _read_loss(reading: Reading) -> None:
    fused = reading.get("cross_entropy_loss_fusion")
    kernel = reading.get("cross_entropy_fusion_impl")
    if fused is not None and reading.value("cross_entropy_loss_fusion"):
        fusion = f"{reading.value('cross_entropy_fusion_impl', 'native')}_fused"
        told = [fused] if kernel is None else [fused, kernel]
        reading.draft.put("/training/loss/cross_entropy", fusion, *told)


def _read_framework(reading: Reading, defaults: Defaults) -> None:
    draft, framework = reading.draft, "/framework"
    draft.default(f"{framework}/name", "megatron", defaults.name)
    _copy(reading, FRAMEWORK, framework)
    for name in ("transformer_impl", "overlap_grad_reduce", "overlap_param_gather"):
        _default(reading, defaults, name, f"{framework}/{FRAMEWORK[name]}")
    _copy(reading, {"deallocate_pipeline_outputs": "deallocate_pipeline_outputs"}, framework)
    softmax = reading.get("masked_softmax_fusion")
    local = draft.get(f"{framework}/transformer_impl") == "local"
    if softmax is not None and local and not reading.value("masked_softmax_fusion"):
        draft.leave_out(softmax, "what the unfused softmax keeps is not modelled")
    mask = f"{framework}/create_attention_mask_in_dataloader"
    _copy(reading, {"create_attention_mask_in_dataloader": mask.rpartition("/")[2]}, framework)
    masking = reading.get("dataloader_inter_document_masking")
    if masking is not None and reading.value("dataloader_inter_document_masking"):
        draft.put(mask, False, masking)
    _default(reading, defaults, "create_attention_mask_in_dataloader", mask)


def _copy(reading: Reading, names: Mapping[str, str], part: str, *, applies: bool = True) -> None:
    """Set fields of a part of the job to arguments, which change nothing where they do not
    apply.
    """
    for name, field in names.items():
        setting = reading.get(name)
        if setting is not None and applies:
            _put(reading, setting, f"{part}/{field}", reading.value(name))


def _put(reading: Reading, setting: Setting, pointer: str, value: Any) -> None:
    """Set a field. A value that Megatron-LM takes and the field does not is unsupported."""
    try:
        value = as_field(pointer, value)
    except ValueError as error:
        reading.draft.leave_out(setting, f"is not modelled: {error}")
    else:
        reading.draft.put(pointer, value, setting)


def _default(reading: Reading, defaults: Defaults, name: str, pointer: str) -> None:
    """Set a field to what the release sets where an argument is not given."""
    if name not in reading.settings and (value := defaults.get(name)) is not None:
        reading.draft.default(pointer, value, defaults.name)
