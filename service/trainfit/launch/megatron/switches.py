"""Arguments that are switches of Megatron itself."""

from __future__ import annotations

from trainfit.launch.draft import Reading
from trainfit.launch.megatron.fields import copy, put_default
from trainfit.launch.megatron.options import Defaults

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
    "nccl_ub": "nccl_ub",
    "fsdp_double_buffer": "fsdp_double_buffer",
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
