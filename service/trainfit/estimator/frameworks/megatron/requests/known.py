"""Whether the order of a plan's requests is known."""

from trainfit.estimator.frameworks.megatron.states import deals_whole
from trainfit.estimator.schedule import cycle, warm_up
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.blocks import Attention, Experts, LatentAttention, Layer, Mlp

MOST_PASSES = 1_024
"""Layers that run forward in the longest trace that is replayed."""
MOST_EXPERTS = 2_048
"""Experts of a rank in a trace that is replayed."""


def is_traced(plan: MegatronPlan) -> bool:
    """Whether the order of a plan's requests is known: layers in 1F1B or interleaved, with Adam or
    Muon on the GPU.
    """
    layout, step, framework = plan.layout, plan.step, plan.framework
    states = step.states
    return (
        layout.pipeline.schedule in ("1f1b", "interleaved")
        and layout.sharding in ("optim", "no_shard")
        and (layout.cp == 1 or layout.cp_comm_type != "a2a+p2p")
        and len(states.each_moment) == 2
        and (step.muon is None or _steps_whole_matrices(plan))
        and states.linear_master == 0
        and not _is_unexplained(plan)
        and step.optimizer_offload_ratio == 0
        and not step.has_copy
        and not step.recompute.distribute_saved_activations
        and not step.recompute.offloaded
        and not framework.nccl_ub
        and not framework.cpu_offloading_num_layers
        and _captures_known(plan)
        and _is_plain(plan)
        and _passes(plan) <= MOST_PASSES
        and _experts(plan) <= MOST_EXPERTS
    )


def is_local(plan: MegatronPlan) -> bool:
    """Whether layers are Megatron's own, which multiply by cuBLAS."""
    return plan.framework.transformer_impl == "local"


def _steps_whole_matrices(plan: MegatronPlan) -> bool:
    """Whether Muon's ranks have whole matrices, as far as tensor-parallel ranks have one, and no
    adapters: all of them, those of their shares of buffers, or those that they are dealt, unless
    they gather these during the forward.
    """
    layout, overlapped = plan.layout, plan.framework.overlap_param_gather
    gathers_apart = deals_whole(plan) and overlapped and layout.optimizer_shards > 1
    return plan.step.adapters is None and not gathers_apart


def _captures_known(plan: MegatronPlan) -> bool:
    """Whether CUDA graphs, if there are any, are one of all, or TransformerEngine's of layers that
    do not run again as a whole, nor in parts beside each other; and of its layers, not Megatron's
    own. Source: megatron/core/transformer/transformer_config.py (cuda_graph_modules).
    """
    if is_local(plan):
        return plan.framework.cuda_graph_impl == "none"
    if plan.framework.cuda_graph_impl == "transformer_engine":
        beside = plan.framework.overlap_moe_expert_parallel_comm
        return plan.step.recompute.full == "none" and not beside
    return plan.framework.cuda_graph_impl in ("none", "full_iteration")


def _is_unexplained(plan: MegatronPlan) -> bool:
    """Whether weights are kept in blockwise fp8 alone: a published run, Qwen3-14B on eight H20, has
    4 GiB more on the GPU than its tensors and the allocator's cache of them explain.
    """
    narrow = plan.step.states.narrow
    return plan.step.narrow_recipe == "blockwise" and narrow is not None and narrow.alone


def _passes(plan: MegatronPlan) -> int:
    """Layers that the first rank runs forward in a first step and a later one."""
    pipeline, m = plan.layout.pipeline, plan.batch.num_microbatches
    layers = -(-plan.model.num_layers // (pipeline.pp * pipeline.vpp))
    return (2 * warm_up(pipeline, m, 0) + 2 + cycle(pipeline)) * layers


def _experts(plan: MegatronPlan) -> int:
    """Experts that a rank has, whose matrices are parameters of their own each."""
    most = max([block.experts for block in plan.model.blocks if isinstance(block, Experts)] or [0])
    return most // plan.layout.ep * -(-plan.model.num_layers // plan.layout.pipeline.pp)


def _is_plain(plan: MegatronPlan) -> bool:
    """Whether a model has no stretches but those whose programs tell the order."""
    model = plan.model
    return (
        model.residual_streams == 1
        and _predicts_beside_its_head(plan)
        and not model.extras
        and model.encoder_parameters == 0
        and len(model.final_norms) == 1
        and not model.embedding.norms
        and not model.output_layer.scores_labels
        and all(map(_tells_order, model.layer_kinds))
    )


def _predicts_beside_its_head(plan: MegatronPlan) -> bool:
    """Whether a multi-token prediction is on the stage of its heads."""
    return plan.mtp_layers in (0, plan.layout.pipeline.virtual_stages[-1].mtp_layers)


def _tells_order(kind: Layer) -> bool:
    """Whether a layer has no blocks but those whose programs do."""
    for sublayer in kind.sublayers:
        if len(sublayer.blocks) != 1 or not sublayer.norms or sublayer.post_norms:
            return False
        (block,) = sublayer.blocks
        match block:
            case Attention() if block.reuses_weights or not block.owns_kv:
                return False
            case Attention() | LatentAttention() | Mlp() | Experts():
                continue
            case _:
                return False
    return True
