"""Megatron-LM and Megatron-Bridge, as the estimator asks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType

from trainfit.estimator import timeline as turns
from trainfit.estimator.blocks.moe import deep_ep, hybrid_ep
from trainfit.estimator.blocks.moe.transformer_engine import with_least_ep
from trainfit.estimator.frameworks.framework import Alike, Costs, Execution, StateTraffic
from trainfit.estimator.frameworks.megatron import freezing
from trainfit.estimator.frameworks.megatron.buffers import user_buffers
from trainfit.estimator.frameworks.megatron.chunks import MegatronLedger
from trainfit.estimator.frameworks.megatron.freezing import BOTH, frozen_towers
from trainfit.estimator.frameworks.megatron.held import adapters_of
from trainfit.estimator.frameworks.megatron.ranks import ranks as ranks
from trainfit.estimator.frameworks.megatron.requests.known import is_traced
from trainfit.estimator.legend import legend_of
from trainfit.estimator.local_parameters import ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import (
    LEDGER_PERMILLE,
    MEASURED_STAGES,
    NOTHING,
    UNMEASURED_PERMILLE,
    KernelLoading,
    added,
    all_to_all,
)
from trainfit.estimator.results import Interval
from trainfit.estimator.run import run_of
from trainfit.estimator.timeline import Timeline
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.blocks import Experts, Recurrence
from trainfit.specs.calibration import Trained

ASSUMPTIONS = {
    "interval-basis": f"Low and high are engineering bounds on the ledger's sum. All "
    f"{MEASURED_STAGES} measured peaks of Megatron-LM and Megatron-Bridge runs whose configuration "
    "is known completely lie between those of allocated bytes.",
    "cuda-graphs": "What CUDA graphs capture lives in a pool of its own, which shares nothing with "
    "what runs beside them; the driver's own bytes for them are within the bounds: a few GB, as "
    "Megatron-Bridge says.",
}


def ledger(plan: MegatronPlan, *, symbolic: bool = False) -> MegatronLedger:
    """TransformerEngine's programs, in numbers or in symbols."""
    return MegatronLedger(run_of(plan), symbolic=symbolic)


def execution(plan: MegatronPlan) -> Execution:
    """TransformerEngine's grouped linear launches a product for each expert
    (module/grouped_linear.py), its fused grouped MLP one kernel for all. Where experts are padded
    to their capacity, the dispatcher knows their rows without asking the GPU, and where a rank has
    room for so many, the fused kernels need not know them (transformer/moe/token_dispatcher.py,
    drop_and_pad and _HybridEPManager).
    """
    routing, fused = plan.routing, plan.framework.use_transformer_engine_op_fuser
    roomy = fused and routing.rank_capacity_factor > 0
    return Execution(
        narrow=plan.step.narrow_recipe,
        overlaps_experts=plan.framework.overlap_moe_expert_parallel_comm,
        adds_apart=not plan.framework.gradient_accumulation_fusion,
        launches_experts=not roomy,
        replays=plan.framework.cuda_graph_impl == "full_iteration",
        overlaps_tensors=plan.framework.tp_comm_overlap,
        knows_rows=routing.pad_to_capacity or roomy,
        narrow_attention=plan.step.attention is not None,
    )


def shared_ledger(plan: MegatronPlan, memo: Memo) -> MegatronLedger:
    """The ledger of the smallest ep that leaves the same behind, of the rows that arrive: kernels
    read where rows end (use_transformer_engine_op_fuser, which room on a rank asks for), so that
    room that none fills takes no time.
    """
    run = run_of(plan)
    if run.routing.rank_capacity_factor:
        run = run._replace(routing=replace(run.routing, rank_capacity_factor=0.0))
    return memo(MegatronLedger, with_least_ep(run))


def state_traffic(plan: MegatronPlan) -> StateTraffic:
    """Megatron-FSDP gathers weights, and reduces gradients, for every micro-batch. Adapters are too
    small to count.
    """
    states, strategy = plan.step.states, plan.layout.sharding
    if plan.step.adapters is not None:
        return StateTraffic(0, 0, 0, reduces_each=False, overlapped=True, optimizer=0)
    return StateTraffic(
        gradient=states.gradients,
        weight=0 if strategy == "no_shard" else states.weights,
        gathers=2 if strategy == "optim_grads_params" else 0,
        reduces_each=strategy in ("optim_grads", "optim_grads_params"),
        overlapped=plan.framework.overlap_grad_reduce,
        optimizer=states.gradients + 2 * (states.master + states.moments) + states.weights,
        on_host=plan.step.optimizer_offload_ratio,
    )


def programs(plan: MegatronPlan) -> Mapping[str, ModuleType]:  # noqa: ARG001
    """The programs under TransformerEngine."""
    return MegatronLedger.tables


def timeline(plan: MegatronPlan, rank: int) -> Timeline | None:
    """The turns of the schedule, unless forwards and backwards run at the same time."""
    if plan.framework.overlap_moe_expert_parallel_comm:
        return None
    own = MegatronLedger(run_of(plan))
    return turns.timeline(plan, own, rank, own.sizes.act)


def traces(plan: MegatronPlan, memo: Memo) -> Sequence[Alike]:
    """By the chunks that ranks hold, where the order of requests is known; what writes them down
    is loaded where it is.
    """
    if not is_traced(plan):
        return []
    from trainfit.estimator.frameworks.megatron.requests.traces import Traces

    return list(Traces(plan, memo).alike())


def trained_parameters(plan: MegatronPlan, table: ParameterTable, memo: Memo) -> int | None:
    """The parameters of the adapters, if there are any, or of what is not frozen."""
    adapters = adapters_of(run_of(plan), memo)
    if adapters:
        return sum([adapters[kind].whole for kind in plan.model.pattern])
    frozen = plan.step.frozen
    return freezing.trained_parameters(table.counts, plan.model, frozen) if frozen else None


def trains(plan: MegatronPlan) -> Trained:
    """All, or low-rank adapters."""
    return "all" if plan.step.adapters is None else "adapters"


def stray_permille(plan: MegatronPlan) -> int:
    """Runs of plain pipelines without mixers were measured, and none with a tower that is trained:
    a frozen one keeps nothing beside the text's step.
    """
    mixers = any(isinstance(block, Recurrence) for block in plan.model.blocks)
    sees = plan.model.encoder is not None and plan.batch.image_tokens != 0
    learns = sees and frozen_towers(run_of(plan)) != BOTH
    plain = not (mixers or learns)
    measured = plan.layout.pipeline.schedule in ("1f1b", "interleaved") and plain
    return LEDGER_PERMILLE if measured else UNMEASURED_PERMILLE


def kernel_loading(plan: MegatronPlan) -> KernelLoading:  # noqa: ARG001
    """It needs releases of CUDA that load what runs."""
    return "lazy"


def expert_groups(plan: MegatronPlan) -> list[int]:
    """The ranks that hold the same experts, and those that divide one: these have a communicator of
    their own even where they are the tensor-parallel ranks. A dense model makes neither.
    Sources: megatron/core/parallel_state.py, distributed/param_and_grad_buffer.py (BufferKey).
    """
    layout = plan.layout
    if not plan.model.has_experts:
        return []
    apart = layout.ep > 1 or layout.etp != layout.tp
    return [*[layout.expert_dp] * apart, layout.etp]


def exchange(plan: MegatronPlan) -> Interval:
    """Connections of an all-to-all, or the buffer of DeepEP or HybridEP, which a single rank has as
    well; and the buffers through which tensor-parallel linears communicate.
    """
    run, dispatcher = run_of(plan), plan.routing.dispatcher
    sizes = legend_of(run)
    beside = user_buffers(run, sizes)
    experts = [block for block in plan.model.blocks if isinstance(block, Experts)]
    if dispatcher == "hybridep":
        buffers = [hybrid_ep.buffer(block, sizes) for block in experts]
    elif dispatcher == "deepep":
        buffers = [deep_ep.buffer(block, sizes, plan.routing.deepep_sms) for block in experts]
    else:
        return added(all_to_all(plan), beside)
    return added(max(buffers, key=lambda each: each.high, default=NOTHING), beside)


def assumptions(plan: MegatronPlan) -> frozenset[str]:
    """Balanced routing is no assumption where every expert has its capacity filled."""
    registered = {"nccl-user-buffers"} if plan.framework.nccl_ub else set()
    balanced = {"balanced-routing"} if not plan.routing.pad_to_capacity else set()
    graphs = {"cuda-graphs"} if plan.framework.cuda_graph_impl != "none" else set()
    unsaid = plan.model.encoder is not None and plan.batch.image_tokens is None
    towers = {"encoder-bounded"} if unsaid else set()
    return frozenset({"interval-basis", *registered, *balanced, *graphs, *towers})


def costs(plan: MegatronPlan, *, replay: bool) -> Costs:
    """Measured over the models of tests/bench. Where requests are known, so many are replayed at
    most and those of one trace more, which grow with its layers.
    """
    if replay and is_traced(plan):
        return Costs(kind=2_500, layer=600, rank=80, chunk=35, once=160_000)
    return Costs(kind=500, layer=20, rank=80, chunk=35)
