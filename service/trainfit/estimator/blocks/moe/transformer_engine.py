"""Mixture of experts as megatron-core runs it with TransformerEngine's linears.

Symbols: estimator.legend; T_r rows that the experts of a rank receive, f_e and f_s widths of a
routed expert and of the shared ones. Source: megatron/core/transformer/moe (moe_layer.py,
router.py, moe_utils.py, experts.py, shared_experts.py) and TransformerEngine's grouped_linear.py.
"""

from trainfit.estimator.blocks.mlp.transformer_engine import activated
from trainfit.estimator.blocks.moe import all_gather, all_to_all, deep_ep, hybrid_ep
from trainfit.estimator.blocks.moe.rows import rows_of
from trainfit.estimator.blocks.moe.sequential import run_in_turn
from trainfit.estimator.demands import Product
from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, FP32
from trainfit.estimator.run import MegatronRun
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Experts

ACTIVATION = "moe_act"
"""Recomputed, the activations of routed experts are made again; offloaded, their inputs leave."""

STREAM = "shared experts"
"""On which shared experts run beside the dispatch (SharedExpertMLP.stream)."""

DISPATCHERS = {
    "alltoall": all_to_all,
    "allgather": all_gather,
    "deepep": deep_ep,
    "hybridep": hybrid_ep,
}

HONOURS = frozenset({"clamped", "latent", "shared_ffn", "shared_gate"})


def mixture_of_experts(step: TransformerEngine, x: Tensor, block: Experts) -> None:
    """Shared experts, router, dispatch, experts, combination. With a latent, rows are projected to
    its width before dispatch, and back after combination.
    """
    routing = step.run.routing
    rows = rows_of(block, step.sizes, routing)
    dispatcher = DISPATCHERS[routing.dispatcher]
    with step.module("moe"):
        if block.shared_ffn is not None:
            output = _shared_experts(step, x, block, block.shared_ffn)
            if step.run.framework.overlap_moe_expert_parallel_comm:
                step.operation("shared_output", saves=(output,))
        _router(step, x, block)
        if block.latent is not None:
            (latent,) = step.named(latent=block.latent)
            step.linear("fc1_latent_proj", x, latent, "latent")
        received = dispatcher.dispatch(step, block, rows)
        dispatcher.combine(step, block, rows, _experts(step, received, block, rows.kept))
        if block.latent is not None:
            combined = step.tensor("combined latent", x.shape[0], latent)
            step.linear("fc2_latent_proj", combined, step.sizes.h, "output")


def with_least_ep(run: MegatronRun) -> MegatronRun:
    """The run with the smallest ep whose programs leave the same behind. An all-to-all moves as
    many rows whatever ep is, but sorts none where a rank has a single expert.
    """
    fused = run.routing.dispatcher == "alltoall" and run.framework.gradient_accumulation_fusion
    experts = [block.experts for block in run.model.blocks if isinstance(block, Experts)]
    several = all(count // run.ep > 1 for count in experts)
    return run._replace(ep=1) if fused and several else run


def _router(step: TransformerEngine, x: Tensor, block: Experts) -> None:
    """Its product is not in fp8. Scores are fp32; masks and the routing map are one byte an
    element.
    """
    (experts,) = step.named(E=block.router_width or block.experts)
    scores = step.sizes.n_shard, experts
    logits = step.tensor("logits", *scores, width=FP32)
    step.operation(
        "router",
        makes=(logits,),
        saves=(
            x,
            step.tensor("softmax", *scores, width=FP32),
            step.tensor("softmax of the auxiliary loss", *scores, width=FP32),
            step.tensor("masks", 2, *scores, width=BYTE),
            step.tensor("probabilities", *scores, width=step.run.routing.probability_bytes),
            step.tensor("routing map", *scores, width=BYTE),
        ),
        backward=(step.tensor("gradient of logits", *scores, width=FP32),),
        kind=OperationKind.ROUTING,
        demands=(Product(step.sizes.n_shard, x.shape[-1], experts, narrow=False),),
    )


def _shared_experts(step: TransformerEngine, x: Tensor, block: Experts, width: int) -> Tensor:
    """Its output is alive during the whole dispatch, until it is added. Overlapped with the
    dispatch it gathers its input itself and keeps it whole. A gate keeps both its factors.
    """
    sizes, (f_s,) = step.sizes, step.named(f_s=width)
    stream = STREAM if step.run.routing.shared_expert_overlap else 0
    with step.beside(stream):
        output, inputs = step.tensor("shared output", sizes.n_shard, sizes.h), x
        with step.module("shared_experts"):
            if step.run.routing.shared_expert_overlap and sizes.n_gathered:
                x = step.tensor("gathered input", sizes.n_gathered, sizes.h)
            names = ("shared_fc1", "shared_activation")
            y = activated(step, x, f_s, names, gated=block.shared_gated, clamped=block.clamped)
            step.row_linear("shared_fc2", y, sizes.h, holds=(output,))
            if block.shared_gate:
                score = step.tensor("gate score", sizes.n_shard)
                gated = step.tensor("gated output", sizes.n_shard, sizes.h)
                ungated, output = output, gated
                step.operation(
                    "shared_gate",
                    saves=(inputs, ungated, score),
                    holds=(gated,),
                    backward=(step.gradient(ungated), step.gradient(gated)),
                )
    return output


def _experts(step: TransformerEngine, x: Tensor, block: Experts, kept_rows: int) -> Tensor:
    """fc1, activation weighted by the routing probability, fc2 of the rows [T_r, h]; all local
    experts in one kernel, or one after the other. Of rows that only stand for room, those that
    arrived are kept.
    """
    routing, experts = step.run.routing, block.experts // step.sizes.e
    received, width = x.shape
    output = step.tensor("output", received, width)
    if experts > 1 and not routing.grouped_gemm:
        run_in_turn(step, x, block, output)
        return output
    (f_e,) = step.named(f_e=block.ffn)
    f = f_e // step.sizes.x
    projected = step.tensor(
        "fc1 output", received, 2 * f if block.gated else f, dropped_by=(OFFLOADED + ACTIVATION,)
    )
    if kept_rows != received:
        (kept_rows,) = step.named(T_k=kept_rows)
        step.stashes(x, kept_rows)
        step.stashes(projected, kept_rows)
    else:
        kept_rows = received
    step.grouped_linear("experts_fc1", x, projected, experts)
    kept = [step.tensor("row probabilities", kept_rows, width=routing.probability_bytes)]
    by = step.run.framework
    if not (by.bias_activation_fusion if block.gated else by.use_fused_weighted_squared_relu):
        name = "activation before its weight"
        kept.append(step.tensor(name, kept_rows, f, dropped_by=(ACTIVATION,)))
    y = step.tensor("activation output", received, f, dropped_by=(ACTIVATION,))
    if kept_rows != received:
        step.stashes(y, kept_rows)
    step.activation(
        "experts_activation", projected, y, *kept, gated=block.gated, clamped=block.clamped
    )
    step.grouped_linear("experts_fc2", y, output, experts)
    if block.bias and not by.use_transformer_engine_op_fuser:
        return _with_bias(step, output)
    return output


def _with_bias(step: TransformerEngine, rows: Tensor) -> Tensor:
    """The bias of fc2, by the routing probability of each row, added to the rows of one expert
    after the other, which are joined again: in fp32, as probabilities are. Source: experts.py
    (TEGroupedMLP._apply_bias).
    """
    width = step.run.routing.probability_bytes
    weighted, summed, joined = (
        step.tensor(name, *rows.shape, width=width)
        for name in ("weighted bias", "rows with bias", "joined rows")
    )
    gradient = step.tensor("gradient of joined rows", *rows.shape, width=width)
    of_rows, of_biases, of_weights = (
        step.gradient(rows),
        step.tensor("gradient of bias by row", *rows.shape, width=width),
        step.tensor("gradient of probability by feature", *rows.shape, width=width),
    )
    output = step.tensor("output with bias", *rows.shape)
    step.operation("experts_bias", borrows=(weighted,), backward=(gradient, of_biases))
    step.operation("experts_bias_by_row", backward=(gradient, of_weights))
    step.operation(
        "experts_bias_added",
        borrows=(weighted, summed),
        backward=(gradient, of_rows),
        reads=(rows,),
    )
    step.operation("experts_bias_joined", borrows=(summed, joined))
    step.operation(
        "experts_bias_cast", makes=(output,), borrows=(joined,), backward=(gradient, of_rows)
    )
    return output
