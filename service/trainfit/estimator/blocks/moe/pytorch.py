"""Mixture of experts as modules of PyTorch, all experts in grouped products or one by one.

Symbols: estimator.legend; T rows of the expert matrices, f_e and f_s widths of a routed expert and
of the shared ones. Sources: transformers' integrations/moe.py (grouped_mm), modeling_qwen3_moe.py,
modeling_nemotron_h.py and, where ranks share experts, distributed/expert_parallel.py (AllToAllEP).
"""

from trainfit.estimator.blocks.moe import exchanged, one_by_one
from trainfit.estimator.blocks.moe.grouped import (
    ROUTED,
    first_product,
    multiplies,
    shared_experts,
    weight_gradients,
)
from trainfit.estimator.demands import Product
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import FP32, INT64
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts

HONOURS = frozenset({"latent", "shared_ffn", "shared_gate"})


def mixture_of_experts(step: Modules, x: Tensor, block: Experts) -> None:
    """Router, gathering, experts, weighted sum, between two projections where experts work on a
    latent; the shared experts beside them. The inputs of
    experts are narrowed where FSDP gathers these by themselves in a narrower type: else weights of
    rows that are fp32 make their products so.
    """
    states = step.way.step.states
    narrowed = step.sizes.e > 1 and states.gathered < states.parameters
    width = FP32 if step.by.router_dtype == "fp32" and not narrowed else step.sizes.bytes
    _router(step, x, block)
    read = x
    if block.latent is not None:
        (latent,) = step.named(latent=block.latent)
        read = step.linear("fc1_latent_proj", x, latent, joins=True)
    with step.module(ROUTED):
        if step.way.step.experts_one_by_one:
            one_by_one.experts(step, read, block, width)
        else:
            run = exchanged.experts if step.sizes.e > 1 else _experts
            run(step, block, width)
    if block.latent is not None:
        combined = step.tensor("combined latent", x.shape[0], latent)
        step.linear("fc2_latent_proj", combined, step.sizes.h)
    shared_experts(step, x, block, step.by.experts_activation or "")


def _router(step: Modules, x: Tensor, block: Experts) -> None:
    """Scores [n, E] in fp32, and the k chosen ones of each token. Some multiply in fp32 and keep a
    copy of their input for that.
    """
    n, h = step.sizes.n, step.sizes.h
    experts, k = step.named(E=block.router_width or block.experts, k=block.top_k)
    trained = step.sizes.trains("router")
    saves = [
        step.tensor("softmax", n, experts, width=FP32),
        step.tensor("chosen experts", n, k, width=INT64),
        step.tensor("their weights", n, k, width=FP32),
    ]
    if trained and step.by.router_dtype == "fp32" and step.sizes.bytes < FP32:
        saves.append(step.tensor("input in fp32", n, h, width=FP32))
    logits = step.tensor("logits", n, experts)
    gradient = step.tensor("weight gradient", experts, h, width=step.sizes.gradient_bytes)
    step.operation(
        "router",
        saves=(*saves, *(step.shared(x) if step.reads("router", x) else ())),
        borrows=(logits,),
        backward=(step.several("gradients of the scores", 2, n, experts, width=FP32),),
        leaves=(gradient,) if trained else (),
        output=logits,
        demands=(Product(n, h, experts, 0, 1 + trained, narrow=False),),
    )


def _experts(step: Modules, block: Experts, weighted: int) -> None:
    """fc1, activation and fc2 of the T = n k rows that tokens are copied to, which are then
    `weighted` in elements of so many bytes.
    """
    (rows,) = step.named(T=step.sizes.n * block.top_k)
    (h,) = step.named(latent=block.latent) if block.latent else (step.sizes.h,)
    trained = step.sizes.trains("experts")
    x = step.tensor("gathered rows", rows, h)
    order = step.several("order of the rows", 3, rows, width=INT64)
    up, down = weight_gradients(step, block, h)
    gate_up, inputs = first_product(step, block, rows)
    step.operation(
        "experts_fc1",
        saves=(order,),
        for_weight=(x,) * trained,
        holds=(x,),
        backward=(step.gradient(x), step.gradient(gate_up)),
        leaves=up,
        output=gate_up,
        demands=(multiplies(step, block, rows, gate_up.shape[-1], h),),
    )
    kind = step.by.experts_activation or ""
    act = step.activation(*inputs, name="experts_activation", kind=kind)
    y = step.tensor("output", rows, h)
    step.operation(
        "experts_fc2",
        for_weight=(act,) * trained,
        backward=(step.gradient(y), step.gradient(act)),
        leaves=down,
        output=y,
        demands=(multiplies(step, block, rows, act.shape[-1], h),),
    )
    made = "weighted output, sorted by expert and by token"
    gradients = "gradients of rows, in order and weighted"
    step.operation(
        "weighted_sum",
        saves=(y,),
        borrows=(step.several(made, 2, rows, h, width=weighted),),
        backward=(step.several(gradients, 3, rows, h, width=weighted),),
    )
