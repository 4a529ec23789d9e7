"""How a step under Megatron brings tokens to their experts."""

from collections.abc import Mapping

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.megatron.plan import Routing
from trainfit.resolve.megatron.precision import BYTES, resolve_precision
from trainfit.resolve.narrow import narrow_recipe
from trainfit.resolve.plan import Layout
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.precision import Narrow
from trainfit.specs.training import MoeOptions

ALIGNED: Mapping[Narrow | None, int] = {"mxfp8": 32, "nvfp4": 128}
"""Rows that products of experts want multiples of; 16 by the other recipes. Source:
megatron/core/fp8_utils.py (get_fp8_align_size), fp4_utils.py (get_fp4_align_size)."""


def resolve_routing(job: Job, findings: Findings) -> Routing:
    moe = job.training.moe
    if moe.pad_expert_input_to_capacity and moe.expert_capacity_factor is None:
        findings.add(
            "/training/moe/expert_capacity_factor",
            "missing",
            "padding experts to their capacity needs a capacity factor",
            put("/training/moe/expert_capacity_factor", 1.0),
        )
    precision = resolve_precision(job.training)
    dtype = moe.router_dtype or precision.compute
    dispatcher = moe.token_dispatcher_type
    kind = moe.flex_dispatcher_backend if dispatcher == "flex" else dispatcher
    room = moe.expert_rank_capacity_factor or 0.0
    _check_room(moe, findings)
    recipe = narrow_recipe(precision)
    padded = moe.router_padding_for_quantization and recipe is not None
    return Routing(
        dispatcher=kind,
        grouped_gemm=moe.grouped_gemm,
        permute_fusion=moe.permute_fusion,
        capacity_factor=moe.expert_capacity_factor or 0.0,
        pad_to_capacity=moe.pad_expert_input_to_capacity,
        imbalance_factor=float(moe.imbalance_factor),
        random=moe.router_force_load_balancing,
        probability_bytes=BYTES[dtype],
        shared_expert_overlap=moe.shared_expert_overlap,
        deepep_sms=moe.deepep_num_sms,
        rank_capacity_factor=room if kind == "hybridep" else 0.0,
        stash_factor=moe.paged_stash_buffer_size_factor_cuda if moe.paged_stash else 0.0,
        align=ALIGNED.get(recipe, 16) if padded else 1,
    )


def _check_room(moe: MoeOptions, findings: Findings) -> None:
    """Source: megatron/core/transformer/transformer_config.py (moe_paged_stash)."""
    where = "/training/moe/expert_rank_capacity_factor"
    if moe.paged_stash and moe.expert_rank_capacity_factor is None:
        message = "a paged stash keeps what arrives of the room that this factor gives: set it"
        findings.add(where, "missing", message, put(where, 1.5))


def check_token_overlap(
    job: Job, framework: Megatron, layout: Layout, mtp_layers: int, findings: Findings
) -> None:
    """What exchanging one micro-batch's tokens while another is computed does not go with.

    Source: megatron/core/transformer/transformer_config.py, pipeline_parallel/schedules.py.
    """
    if not framework.overlap_moe_expert_parallel_comm:
        return
    moe, recompute = job.training.moe, job.training.recompute
    wrong = [
        (layout.ep == 1, "needs ep > 1"),
        (moe.token_dispatcher_type == "allgather", "needs the dispatcher alltoall or flex"),
        (moe.shared_expert_overlap, "does not go with moe.shared_expert_overlap"),
        (recompute.granularity == "full", "does not go with full recompute"),
        ("moe" in (recompute.modules or ()), "does not go with the recompute module moe"),
        (layout.pipeline.pp > 1 and layout.pipeline.vpp == 1, "needs vpp > 1 where pp > 1"),
        (layout.pipeline.schedule not in ("1f1b", "interleaved"), "has a schedule of its own"),
        (mtp_layers > 1, "goes with one depth of multi-token prediction at most"),
    ]
    where = "/framework/overlap_moe_expert_parallel_comm"
    for holds, message in wrong:
        if holds:
            findings.add(where, "conflict", f"the overlap {message}", put(where, False))
