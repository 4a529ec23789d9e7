"""Mixture of experts as megatron-core runs it with TransformerEngine's linears.

Symbols: estimator.legend; T_r rows that the experts of a rank receive, f_e and f_s widths of a
routed expert and of the shared ones. Source: megatron/core/transformer/moe (moe_layer.py,
router.py, moe_utils.py, experts.py, shared_experts.py) and TransformerEngine's grouped_linear.py.
"""

from collections.abc import Hashable

from trainfit.estimator.blocks.mlp.transformer_engine import feed_forward
from trainfit.estimator.blocks.moe import all_gather, all_to_all
from trainfit.estimator.blocks.moe.rows import Rows, rows_of
from trainfit.estimator.ledger import Operation, backward, forward, held, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED, MegatronPlan, Routing
from trainfit.specs.blocks import Experts


def operations(block: Experts, sizes: Legend, plan: MegatronPlan) -> tuple[Operation, ...]:
    """Shared experts, router, dispatch, experts, combination."""
    routing = plan.routing
    rows = rows_of(block, sizes, routing)
    dispatcher = all_gather if routing.dispatcher == "allgather" else all_to_all
    table: list[Operation] = []
    if block.shared_ffn is not None:
        table += _shared_experts(block, block.shared_ffn, sizes, routing)
    table.append(_router(block, sizes, routing))
    table += dispatcher.dispatch(block, sizes, rows, routing)
    table += _experts(block, sizes, rows, routing)
    table += dispatcher.combine(block, sizes, rows)
    return tuple([each._replace(scopes=("moe", *each.scopes)) for each in table])


def rests_on_division(block: Experts, plan: MegatronPlan) -> Hashable:
    """All of ep and etp that the table of these experts rests on. An all-to-all moves as many rows
    whatever ep is, but sorts none where a rank has a single expert.
    """
    local = block.experts // plan.layout.ep
    apart = plan.routing.dispatcher == "alltoall" and plan.framework.gradient_accumulation_fusion
    return (local > 1 if apart else local), plan.layout.etp


def _router(block: Experts, sizes: Legend, routing: Routing) -> Operation:
    """Scores are fp32; masks and the routing map are one byte an element."""
    scores = sizes.n_shard * (block.router_width or block.experts)
    return Operation(
        "router",
        (
            saved("softmax [n', E]", 4 * scores),
            saved("softmax of the auxiliary loss [n', E]", 4 * scores),
            saved("masks [n', E] twice", 2 * scores),
            saved("probabilities [n', E]", routing.probability_bytes * scores),
            saved("routing map [n', E]", scores),
            forward("logits [n', E]", 4 * scores),
            backward("gradient of the logits [n', E]", 4 * scores),
        ),
    )


def _shared_experts(block: Experts, width: int, sizes: Legend, routing: Routing) -> list[Operation]:
    """Its output is alive during the whole dispatch, until it is added. Overlapped with the
    dispatch it gathers its input itself and keeps it whole.
    """
    gathered = sizes.h * sizes.n_gathered * sizes.bytes * routing.shared_expert_overlap
    in_fp8 = sizes.copied(sizes.act)
    kept = saved("gathered input [n, h]", max(gathered, in_fp8))
    fc1, activation, fc2 = feed_forward(
        ffn=width // sizes.t,
        gated=block.shared_gated,
        h_in=sizes.h,
        h_out=sizes.h,
        sizes=sizes,
        scopes=("shared_experts",),
    )
    output = held("shared output [n', h]", sizes.act)
    return [
        fc1._replace(name="shared_fc1", tensors=(kept, *fc1.tensors)),
        activation._replace(name="shared_activation"),
        fc2._replace(name="shared_fc2", tensors=(*fc2.tensors, output)),
    ]


def _experts(block: Experts, sizes: Legend, rows: Rows, routing: Routing) -> list[Operation]:
    """fc1, activation weighted by the routing probability, fc2; all local experts in one kernel
    or one after the other, which keeps the same rows.
    """
    h, width = block.latent or sizes.h, sizes.bytes
    f = block.ffn // sizes.x
    inputs = 2 if block.gated else 1
    received = h * rows.received * width
    product = f * rows.received * width
    fused = block.gated and routing.grouped_gemm
    weighted = () if fused else (saved("activation before its weight", product, "moe_act"),)
    apart = 0 if routing.grouped_gemm else received
    return [
        Operation(
            "experts_fc1",
            (
                backward("input gradient [T_r, h]", received),
                backward("output gradient [T_r, 2f_e / x]", inputs * product),
            ),
            gemm=(inputs * f, h),
        ),
        Operation(
            "experts_activation",
            (
                saved("fc1 output [T_r, 2f_e / x]", inputs * product, OFFLOADED + "moe_act"),
                saved("row probabilities [T_r]", routing.probability_bytes * rows.received),
                *weighted,
                backward("gradient of fc1 output [T_r, 2f_e / x]", inputs * product),
                backward("gradient of its own output [T_r, f_e / x]", product),
            ),
        ),
        Operation(
            "experts_fc2",
            (
                saved("activation output [T_r, f_e / x]", sizes.kept(product), "moe_act"),
                forward("output [T_r, h]", received),
                forward("outputs of single experts [T_r, h]", apart),
                backward("output gradient [T_r, h]", received),
                backward("input gradient [T_r, f_e / x]", product),
            ),
            gemm=(h, f),
        ),
    ]
