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
    mask = f"{framework}/create_attention_mask_in_dataloader"
    copy(reading, {"create_attention_mask_in_dataloader": mask.rpartition("/")[2]}, framework)
    masking = reading.get("dataloader_inter_document_masking")
    if masking is not None and reading.value("dataloader_inter_document_masking"):
        draft.put(mask, False, masking)
    put_default(reading, defaults, "create_attention_mask_in_dataloader", mask)
