"""Mixture of experts as modules of PyTorch, all experts in grouped products.

Symbols: estimator.legend; T rows of the expert matrices, f_e and f_s widths of a routed expert and
of the shared ones. Sources: transformers' integrations/moe.py (grouped_mm), modeling_qwen3_moe.py
and, where ranks share experts, distributed/expert_parallel.py (AllToAllEP).
"""

from collections.abc import Iterator

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.blocks.mlp.pytorch import activate
from trainfit.estimator.blocks.moe import exchanged
from trainfit.estimator.blocks.moe.exchanged import FP32, INDEX_BYTES, ROUTED
from trainfit.estimator.ledger import Operation, Role, backward, forward, gradient, held, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.blocks import Experts

ROUTED_IN_FULL = frozenset(
    {
        "axk1",
        "axk2",
        "bailing_hybrid",
        "beam",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "dots1",
        "dots3_note_text",
        "ernie4_5_moe",
        "exaone_moe",
        "flint",
        "glm4_moe",
        "glm4_moe_lite",
        "glm5_next_text",
        "glm_moe_dsa",
        "granitemoe",
        "granitemoe_swa",
        "granitemoehybrid",
        "granitemoeshared",
        "hy_v3",
        "hy_v4",
        "inkling_text",
        "kimi_k2",
        "kimi_linear",
        "kolibri1",
        "laguna",
        "longcat_flash",
        "mimo_v2_flash",
        "mistral_large4_text",
        "muse_spark_text",
        "nemotron_h",
        "solar_open",
    }
)
"""model_types whose router multiplies in fp32, and keeps a copy of its input for that."""


def keeps_input(block: Experts, sizes: PytorchLegend) -> bool:
    """Whether a product of the block keeps what it reads."""
    shared = () if block.shared_ffn is None else ("gate_proj", "up_proj")
    return sizes.keeps_input(*shared, "router")


def operations(block: Experts, sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """Router, gathering, experts, weighted sum; the shared experts beside them. The inputs of
    experts are narrowed where FSDP gathers these by themselves in a narrower type.
    """
    model_type = plan.model.model_type
    activation = "clamped_swiglu" if model_type == "gpt_oss" else plan.model.traits.activation
    narrowed = sizes.e > 1 and plan.step.states.gathered < plan.step.states.parameters
    in_full = model_type in ROUTED_IN_FULL and not narrowed
    routed = exchanged.experts if sizes.e > 1 else _experts
    rows = routed(block, sizes, activation, in_full=in_full)
    return (
        _router(block, sizes, model_type),
        *[each._replace(modules=(ROUTED,)) for each in rows],
        *shared_experts(block, sizes, activation),
    )


def _router(block: Experts, sizes: PytorchLegend, model_type: str) -> Operation:
    """Scores [n, E] in fp32, and the k chosen ones of each token."""
    n = sizes.n
    scores = n * (block.router_width or block.experts)
    numel = sizes.h * (block.router_width or block.experts)
    copied = model_type in ROUTED_IN_FULL and sizes.bytes < FP32
    trained = sizes.trains("router")
    return Operation(
        "router",
        (
            saved("input in fp32 [n, h]", FP32 * n * sizes.h if copied and trained else 0),
            saved("softmax [n, E] fp32", FP32 * scores),
            saved(
                "chosen experts and their weights [n, k]", (INDEX_BYTES + FP32) * n * block.top_k
            ),
            forward("logits [n, E]", sizes.bytes * scores),
            backward("gradients of the scores [n, E]", 2 * FP32 * scores),
            gradient("weight gradient", numel * sizes.gradient_bytes if trained else 0),
        ),
        output=sizes.bytes * scores,
    )


def _experts(
    block: Experts, sizes: PytorchLegend, activation: str, *, in_full: bool
) -> Iterator[Operation]:
    """fc1, activation and fc2 of the T = n k rows that tokens are copied to. Weights of rows that
    are fp32 make their products so.
    """
    width, h = sizes.bytes, block.latent or sizes.h
    rows = sizes.n * block.top_k
    inputs = 2 if block.gated else 1
    trained = sizes.trains("experts")
    gathered, product = rows * h * width, rows * block.ffn * width
    weighted = rows * h * (FP32 if in_full else width)
    made = block.experts * h * block.ffn * sizes.gradient_bytes if trained else 0
    yield Operation(
        "experts_fc1",
        (
            saved("gathered rows [T, h]", gathered * trained, Role.FOR_WEIGHT_GRADIENT),
            held("gathered rows that no gradient needs", 0 if trained else gathered),
            saved("order of the rows [T]", 3 * INDEX_BYTES * rows),
            backward("input gradient [T, h]", gathered),
            backward("output gradient [T, 2f_e]", inputs * product),
            gradient("weight gradient", inputs * made),
        ),
        output=inputs * product,
    )
    yield activate(product, sizes, activation, gated=block.gated)._replace(
        name="experts_activation"
    )
    yield Operation(
        "experts_fc2",
        (
            saved("activation output [T, f_e]", product * trained, Role.FOR_WEIGHT_GRADIENT),
            backward("output gradient [T, h]", gathered),
            backward("input gradient [T, f_e]", product),
            gradient("weight gradient", made),
        ),
        output=gathered,
    )
    yield Operation(
        "weighted_sum",
        (
            saved("output [T, h]", gathered),
            forward("weighted output, sorted by expert and by token [T, h]", 2 * weighted),
            backward("gradients of rows, in order and weighted [T, h]", 3 * weighted),
        ),
    )


def shared_experts(block: Experts, sizes: PytorchLegend, activation: str) -> Iterator[Operation]:
    """A feed-forward network that every token passes."""
    if block.shared_ffn is None:
        return
    n, h, ffn = sizes.n, sizes.h, block.shared_ffn // sizes.t
    if block.shared_gated:
        yield linear("gate_proj", n, h, ffn, sizes, reads="residual", joins=True)
    yield linear("up_proj", n, h, ffn, sizes, reads="residual", joins=True)
    yield activate(ffn * n * sizes.bytes, sizes, activation, gated=block.shared_gated)
    yield linear("down_proj", n, ffn, h, sizes, reads="own")
    if block.shared_gate:
        output = saved("output and its gate [n, h]", n * h * sizes.bytes)
        yield Operation("shared_expert_gate", (output,))
