"""Arguments that are switches of Megatron itself."""

from __future__ import annotations

from typing import get_args

from trainfit.launch.draft import Reading
from trainfit.launch.megatron.fields import copy, put_default
from trainfit.launch.megatron.options import Defaults
from trainfit.specs.framework import CudaGraphScope

FRAMEWORK = {
    "transformer_impl": "transformer_impl",
    "make_vocab_size_divisible_by": "make_vocab_size_divisible_by",
    "gradient_accumulation_fusion": "gradient_accumulation_fusion",
    "overlap_grad_reduce": "overlap_grad_reduce",
    "overlap_param_gather": "overlap_param_gather",
    "use_layer_wise_param_layout": "use_layer_wise_param_layout",
    "ddp_pad_buckets_for_high_nccl_busbw": "pad_buckets_for_high_nccl_busbw",
    "defer_embedding_wgrad_compute": "defer_embedding_wgrad_compute",
    "wgrad_deferral_limit": "wgrad_deferral_limit",
    "overlap_moe_expert_parallel_comm": "overlap_moe_expert_parallel_comm",
    "deterministic_mode": "deterministic_mode",
    "nccl_ub": "nccl_ub",
    "fsdp_double_buffer": "fsdp_double_buffer",
    "use_fused_weighted_squared_relu": "use_fused_weighted_squared_relu",
    "mtp_use_repeated_layer": "mtp_use_repeated_layer",
    "delay_wgrad_compute": "delay_wgrad_compute",
    "tp_comm_overlap": "tp_comm_overlap",
    "use_transformer_engine_op_fuser": "use_transformer_engine_op_fuser",
}
"""Arguments whose value is that of a field of the job."""


def read_switches(reading: Reading, defaults: Defaults) -> None:
    draft, framework = reading.draft, "/framework"
    draft.default(f"{framework}/name", "megatron", defaults.name)
    copy(reading, FRAMEWORK, framework)
    for name in ("transformer_impl", "overlap_grad_reduce", "overlap_param_gather"):
        put_default(reading, defaults, name, f"{framework}/{FRAMEWORK[name]}")
    copy(reading, {"deallocate_pipeline_outputs": "deallocate_pipeline_outputs"}, framework)
    softmax = reading.get("masked_softmax_fusion")
    local = draft.get(f"{framework}/transformer_impl") == "local"
    if softmax is not None and local and not reading.value("masked_softmax_fusion"):
        draft.leave_out(softmax, "what the unfused softmax keeps is not modelled")
    _read_activation(reading)
    _read_graphs(reading)
    _read_offloading(reading)
    _read_windows(reading)
    mask = f"{framework}/create_attention_mask_in_dataloader"
    copy(reading, {"create_attention_mask_in_dataloader": mask.rpartition("/")[2]}, framework)
    masking = reading.get("dataloader_inter_document_masking")
    if masking is not None and reading.value("dataloader_inter_document_masking"):
        draft.put(mask, False, masking)
    put_default(reading, defaults, "create_attention_mask_in_dataloader", mask)


FUSIONS = {False: "bias_swiglu_fusion", True: "bias_gelu_fusion"}
"""Megatron-LM's switch of the fused activation: whether the gate is another than swiglu's."""


def _read_activation(reading: Reading) -> None:
    """Whether one kernel activates and gates. Megatron-LM turns the switch for other gates than
    swiglu's off where linears have no bias; a config has one for all.
    Source: megatron/training/arguments.py (validate_args), argument_utils.py.
    """
    pointer = "/framework/bias_activation_fusion"
    gate, bias = reading.get("quick_geglu"), reading.get("add_bias_linear")
    other = gate is not None and bool(reading.value("quick_geglu"))
    switches = {name: reading.get(name) for name in FUSIONS.values()}
    switch = switches[FUSIONS[other]]
    if reading.get("bias_activation_fusion") is not None:
        reading.copy("bias_activation_fusion", pointer, bool)
    elif switch is not None and not reading.value(FUSIONS[other]):
        reading.draft.put(pointer, False, switch)
    elif gate is not None and other and bias is not None and gate.key.startswith("--"):
        reading.draft.put(pointer, bool(reading.value("add_bias_linear")), bias, gate)


SCOPES = ("cuda_graph_modules", "cuda_graph_scope", "cuda_graph_scope_deprecated")
"""What releases call the parts that are captured."""
CAPTURED = frozenset(get_args(CudaGraphScope))
WHOLE = ("full", "full_iteration")


def _read_graphs(reading: Reading) -> None:
    """What captures CUDA graphs, and of what: full_iteration was a scope before it was a way.
    Source: megatron/core/transformer/transformer_config.py (cuda_graph_impl).
    """
    setting = reading.get("cuda_graph_impl")
    scopes = [found for name in SCOPES if (found := reading.get(name)) is not None]
    warm_up = reading.get("cuda_graph_warmup_steps")
    if setting is None or reading.value("cuda_graph_impl") in (None, "none"):
        for each in (setting, *scopes, warm_up):
            if each is not None:
                reading.draft.ignore(each)
        return
    words = [word for name in SCOPES for word in _words(reading.value(name))]
    parts = [word for word in words if word not in WHOLE]
    if unknown := sorted(set(parts) - CAPTURED):
        message = f"CUDA graphs of {', '.join(unknown)} are not modelled"
        reading.draft.leave_out(setting, message)
        return
    whole = "full_iteration" in words
    way = "full_iteration" if whole else str(reading.value("cuda_graph_impl"))
    reading.draft.put("/framework/cuda_graph_impl", way, setting, *scopes)
    if parts and way != "full_iteration":
        reading.draft.put("/framework/cuda_graph_scope", parts, *scopes)
    if warm_up is not None:
        reading.draft.put(
            "/framework/cuda_graph_warmup_steps", reading.value("cuda_graph_warmup_steps"), warm_up
        )


def _read_offloading(reading: Reading) -> None:
    """A config has a switch beside the number of layers, which the command line has not."""
    switch, layers = reading.get("cpu_offloading"), reading.get("cpu_offloading_num_layers")
    settings = [each for each in (switch, layers) if each is not None]
    if switch is not None and not reading.value("cpu_offloading"):
        for each in settings:
            reading.draft.ignore(each)
    elif layers is not None:
        number = reading.value("cpu_offloading_num_layers")
        reading.draft.put("/framework/cpu_offloading_num_layers", number, *settings)
    elif switch is not None:
        reading.draft.leave_out(
            switch, "the number of layers whose activations wait on the host is not given"
        )


def _words(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(word) for word in value] if isinstance(value, list | tuple) else []


def _read_windows(reading: Reading) -> None:
    """Which layers have no window changes nothing that TransformerEngine's kernels keep, whose
    attention takes it as an argument (core/extensions/transformer_engine.py); of the local softmax
    that is not known.
    """
    skipped = reading.get("window_attn_skip_freq")
    if skipped is not None and reading.draft.get("/framework/transformer_impl") == "local":
        reading.draft.leave_out(skipped, "layers with and without a window are not modelled here")
    elif skipped is not None:
        reading.draft.ignore(skipped)
