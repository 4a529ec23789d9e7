"""Arguments of one training step: batch, optimizer, recompute, attention, loss, experts."""

from __future__ import annotations

import re
from typing import get_args

from trainfit.launch.draft import Reading
from trainfit.launch.effects import Effect
from trainfit.launch.megatron.dimensions import is_of_the_hub
from trainfit.launch.megatron.fields import copy, put_default
from trainfit.launch.megatron.options import Defaults
from trainfit.launch.megatron.precision import read_precision
from trainfit.launch.models import config_of
from trainfit.specs.optimizers import choices
from trainfit.specs.part import MAX_SAFE_INTEGER
from trainfit.specs.training import OffloadModule, RecomputeModule

RECOMPUTE = {
    "recompute_granularity": "granularity",
    "recompute_method": "method",
    "recompute_num_layers": "num_layers",
    "distribute_saved_activations": "distribute_saved_activations",
}
MOE = {
    "moe_token_dispatcher_type": "token_dispatcher_type",
    "moe_flex_dispatcher_backend": "flex_dispatcher_backend",
    "moe_grouped_gemm": "grouped_gemm",
    "moe_permute_fusion": "permute_fusion",
    "moe_router_dtype": "router_dtype",
    "moe_expert_capacity_factor": "expert_capacity_factor",
    "moe_pad_expert_input_to_capacity": "pad_expert_input_to_capacity",
    "moe_shared_expert_overlap": "shared_expert_overlap",
    "moe_router_force_load_balancing": "router_force_load_balancing",
    "moe_expert_rank_capacity_factor": "expert_rank_capacity_factor",
    "moe_deepep_num_sms": "deepep_num_sms",
    "moe_paged_stash": "paged_stash",
    "moe_paged_stash_buffer_size_factor_cuda": "paged_stash_buffer_size_factor_cuda",
    "moe_router_padding_for_quantization": "router_padding_for_quantization",
    "moe_router_padding_for_fp8": "router_padding_for_quantization",
}
"""Arguments whose value is that of a field of the job."""

OFFLOAD_MODULES = frozenset(get_args(OffloadModule))
RECOMPUTE_MODULES = frozenset(get_args(RecomputeModule))


def read_step(reading: Reading, defaults: Defaults) -> None:
    draft = reading.draft
    copy(reading, {"batch_size": "micro_batch_size"}, "/training")
    copy(reading, {"micro_batch_size": "micro_batch_size"}, "/training")
    copy(reading, {"encoder_seq_length": "seq_length"}, "/training")
    copy(reading, {"seq_length": "seq_length"}, "/training")
    _read_padding(reading)
    _read_lengths(reading)
    _read_batch(reading, defaults)
    read_precision(reading, defaults)
    _read_optimizer(reading, defaults)
    _read_recompute(reading)
    _read_offloading(reading)
    _read_attention(reading, defaults)
    _read_loss(reading)
    experts = is_of_the_hub(draft) or reading.value("num_experts") is not None
    copy(reading, MOE, "/training/moe", applies=experts)
    if experts:
        for name in ("moe_token_dispatcher_type", "moe_grouped_gemm", "moe_permute_fusion"):
            put_default(reading, defaults, name, f"/training/moe/{MOE[name]}")
    for field, name in (
        ("micro_batch_size", "micro-batch size"),
        ("seq_length", "sequence length"),
    ):
        message = f"there is no {name}; give /training/{field} in overrides"
        draft.require(f"/training/{field}", message)


def _read_padding(reading: Reading) -> None:
    """Pai-Megatron-Patch pads the samples of a set of instructions that is not packed."""
    dataset = str(reading.value("dataset"))
    padded = dataset == "JSON-SFT" or dataset.endswith("-Raw")
    copy(reading, {"max_padding_length": "seq_length"}, "/training", applies=padded)


def _read_lengths(reading: Reading) -> None:
    """Samples of several lengths: where context-parallel ranks are as many as each needs, one runs
    after the other, forward and backward, and no rank has more tokens of it than it is given at
    most. Sources: megatron/core/pipeline_parallel/hybrid_cp_schedule.py (gpus_needed),
    megatron/training/arguments.py (hybrid_context_parallel).
    """
    draft = reading.draft
    hybrid, packed = reading.get("hybrid_context_parallel"), reading.get("sft")
    most = reading.get("max_seqlen_per_dp_cp_rank")
    given = [each for each in (hybrid, most) if each is not None]
    if hybrid is None or not reading.value("hybrid_context_parallel"):
        for each in given:
            draft.ignore(each)
        if packed is not None and reading.value("sft"):
            draft.leave_out(packed, "sequences of several lengths in one batch are not modelled")
    elif most is None:
        draft.leave_out(hybrid, "it takes --max-seqlen-per-dp-cp-rank, which is not given")
    elif (reading.value("pipeline_model_parallel_size") or 1) > 1:
        draft.leave_out(hybrid, "it runs without pipeline stages only")
    else:
        length = reading.value("seq_length") or MAX_SAFE_INTEGER
        tokens = min(reading.value("max_seqlen_per_dp_cp_rank") or 1, length)
        ranks = reading.value("context_parallel_size") or 1
        draft.put("/training/seq_length", tokens * ranks, most, hybrid)
        draft.put("/training/micro_batch_size", 1, hybrid)
        if packed is not None:
            draft.ignore(packed)


def _read_batch(reading: Reading, defaults: Defaults) -> None:
    """A step has one micro-batch unless it is given; of a schedule, the largest batch counts."""
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


OPTIMIZERS = choices("megatron")


MUON = {
    "muon_nesterov": "muon_nesterov",
    "muon_use_nesterov": "muon_nesterov",
    "muon_tp_mode": "muon_tp_mode",
}
"""Its options; the first two are one that was renamed."""


def _read_optimizer(reading: Reading, defaults: Defaults) -> None:
    optimizer = "/training/optimizer"
    choice = OPTIMIZERS.get(str(reading.value("optimizer")))
    if choice is not None:
        reading.draft.put(f"{optimizer}/name", choice.name, reading.settings["optimizer"])
    else:
        copy(reading, {"optimizer": "name"}, optimizer)
    copy(
        reading,
        {
            "exp_avg_dtype": "exp_avg_dtype",
            "exp_avg_sq_dtype": "exp_avg_sq_dtype",
            "use_precision_aware_optimizer": "precision_aware",
        },
        optimizer,
    )
    copy(
        reading,
        {"sgd_momentum": "momentum"},
        optimizer,
        applies=reading.value("optimizer") == "sgd",
    )
    by_muon = reading.value("optimizer") in ("muon", "dist_muon")
    copy(reading, MUON, optimizer, applies=by_muon)
    if by_muon:
        put_default(reading, defaults, "muon_tp_mode", f"{optimizer}/muon_tp_mode")
    offload = reading.get("optimizer_cpu_offload")
    fraction = reading.get("optimizer_offload_fraction")
    if offload is not None and reading.value("optimizer_cpu_offload"):
        settings = [offload] if fraction is None else [offload, fraction]
        share = reading.value("optimizer_offload_fraction", 1.0)
        reading.draft.put(f"{optimizer}/cpu_offload_fraction", share, *settings)


OVERLAP = "overlap_cpu_optimizer_d2h_h2d"
STREAMS = 2
"""On which gradients go to the host, and weights come back."""
FP32 = 4


def bound_copies(reading: Reading) -> None:
    """Copies of what is offloaded have streams of their own, and one that changes the type has a
    temporary there, of one parameter after another: the largest is the embedding [V / t, h] or a
    product [2 f / t, h].

    Sources: megatron-core's optimizer/cpu_offloading/hybrid_optimizer.py; PyTorch's
    aten/src/ATen/native/cuda/Copy.cu (copy_requires_temporaries).
    """
    setting, draft = reading.get(OVERLAP), reading.draft
    if setting is None:
        return
    if not (reading.value(OVERLAP) and reading.value("optimizer_cpu_offload")):
        draft.ignore(setting)
        return
    config = config_of(draft) or {}
    rows, hidden, width = (
        draft.settled(f"/model/spec/{name}") or config.get(own) or 0
        for name, own in (
            ("vocab_size", "vocab_size"),
            ("hidden_size", "hidden_size"),
            ("ffn_hidden_size", "intermediate_size"),
        )
    )
    widest = max(rows, 2 * (width or 4 * hidden))
    number = STREAMS * FP32 * widest * hidden // (draft.get("/parallelism/tp") or 1)
    effect = Effect(
        "copies to and from the host have streams of their own, with a parameter's temporary each",
        "raises",
        "megatron-core's optimizer/cpu_offloading/hybrid_optimizer.py",
        bytes=number if rows else 0,
    )
    draft.leave_out(setting, effect)


def _read_recompute(reading: Reading) -> None:
    draft, recompute = reading.draft, "/training/recompute"
    for name in ("recompute_activations", "moe_layer_recompute"):
        setting = reading.get(name)
        if setting is not None and reading.value(name):
            draft.put(f"{recompute}/granularity", "selective", setting)
    copy(reading, RECOMPUTE, recompute)
    modules, layer = reading.get("recompute_modules"), reading.get("moe_layer_recompute")
    named = reading.value("recompute_modules") or []
    settings = [each for each in (modules, layer) if each is not None]
    if layer is not None and reading.value("moe_layer_recompute"):
        named = [*(named or ["core_attn"]), "moe"]
    if not named:
        return
    if unknown := sorted(set(named) - RECOMPUTE_MODULES):
        draft.leave_out(settings[0], f"recompute of {', '.join(unknown)} is not modelled")
    else:
        draft.put(f"{recompute}/modules", named, *settings)


def _read_offloading(reading: Reading) -> None:
    """Modules are offloaded where offloading is on."""
    modules = reading.get("offload_modules")
    switch = reading.get("fine_grained_activation_offloading")
    if modules is None or not reading.value("fine_grained_activation_offloading"):
        return
    if unknown := sorted(set(reading.value("offload_modules")) - OFFLOAD_MODULES):
        reading.draft.leave_out(modules, f"offloading of {', '.join(unknown)} is not modelled")
    elif switch is not None:
        offloaded = reading.value("offload_modules")
        reading.draft.put("/training/offload_modules", offloaded, modules, switch)


def _read_attention(reading: Reading, defaults: Defaults) -> None:
    """--use-flash-attn is the older way to ask for a kernel. FlashAttention has none for a softmax
    with an offset (TransformerEngine's attention/dot_product_attention/utils.py).
    """
    backend = "/training/attention/backend"
    flash = reading.get("use_flash_attn")
    copy(reading, {"attention_backend": "backend"}, "/training/attention")
    chosen = reading.draft.get(backend) not in (None, "auto")
    if flash is not None and reading.value("use_flash_attn") and not chosen:
        reading.draft.put(backend, "flash", flash)
    softmax = reading.get("softmax_type")
    if softmax is not None and reading.value("softmax_type") not in ("vanilla", None):
        reading.draft.put(backend, "fused", softmax)
    copy(reading, {"attention_dropout": "dropout"}, "/training/attention")
    put_default(reading, defaults, "attention_dropout", "/training/attention/dropout")
    copy(reading, {"hidden_dropout": "hidden_dropout"}, "/training")
    put_default(reading, defaults, "hidden_dropout", "/training/hidden_dropout")


def _read_loss(reading: Reading) -> None:
    fused = reading.get("cross_entropy_loss_fusion")
    kernel = reading.get("cross_entropy_fusion_impl")
    if fused is not None and reading.value("cross_entropy_loss_fusion"):
        fusion = f"{reading.value('cross_entropy_fusion_impl', 'native')}_fused"
        settings = [fused] if kernel is None else [fused, kernel]
        reading.draft.put("/training/loss/cross_entropy", fusion, *settings)
