"""Arguments of the layout: parallel groups, and what data-parallel ranks share out."""

from __future__ import annotations

from trainfit.launch.draft import Reading
from trainfit.launch.megatron.fields import copy, put, put_default
from trainfit.launch.megatron.options import Defaults
from trainfit.launch.megatron.precision import shards_with_fsdp

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
"""Arguments whose value is that of a field of the job."""


def read_layout(reading: Reading, defaults: Defaults) -> None:
    draft = reading.draft
    tp = "/parallelism/tp"
    copy(reading, {"model_parallel_size": "tp"}, "/parallelism")
    copy(reading, {"tensor_model_parallel_size": "tp"} | PARALLELISM, "/parallelism")
    sequence = reading.get("sequence_parallel")
    if sequence is not None:
        split = bool(reading.value("sequence_parallel")) and (draft.get(tp) or 1) > 1
        draft.put("/parallelism/sequence_parallel", split, sequence)
    put_default(reading, defaults, "sequence_parallel", "/parallelism/sequence_parallel")
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
        put(reading, setting, "/parallelism/cp_comm_type", kinds.pop())
    else:
        reading.draft.leave_out(setting, "layers that exchange in several ways are not modelled")


def _read_sharding(reading: Reading, defaults: Defaults) -> None:
    """Megatron-FSDP shares out what its strategy says, the distributed optimizer its states."""
    draft = reading.draft
    pointer = "/parallelism/data_parallel_sharding_strategy"
    strategy = reading.get("data_parallel_sharding_strategy")
    distributed = reading.get("use_distributed_optimizer")
    fsdp = reading.get("use_megatron_fsdp") or reading.get("use_custom_fsdp")
    _read_sent_type(reading)
    if fsdp is not None and shards_with_fsdp(reading):
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
        laid_out = "/framework/use_layer_wise_param_layout"
        if distributed is not None:  # Megatron-Bridge says so: nothing lays buffers out then.
            draft.put(laid_out, False, distributed)
        elif defaults.before("core_v0.18.0"):
            draft.default(laid_out, False, defaults.name)
    else:
        draft.default(pointer, "no_shard", defaults.name)
    for name in ("ddp_bucket_size", "ddp_num_buckets"):
        reading.get(name)


def _read_sent_type(reading: Reading) -> None:
    """The type in which Megatron-FSDP sends gradients; where it is theirs there is no other buffer
    (distributed_data_parallel_config.py: megatron_fsdp_grad_comm_dtype).
    """
    sent = reading.get("megatron_fsdp_grad_comm_dtype")
    kept = reading.value("megatron_fsdp_main_grads_dtype", "auto")
    if sent is None or not shards_with_fsdp(reading):
        return
    if reading.value("megatron_fsdp_grad_comm_dtype") not in ("auto", kept):
        why = "gradients that are sent in another type than they are kept in are not modelled"
        reading.draft.leave_out(sent, why)
