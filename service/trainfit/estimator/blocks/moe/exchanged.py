"""Experts of transformers that ranks share out: every row goes to the rank of its expert and back.

Symbols: estimator.legend; T rows that a rank sends, and receives where routing is balanced.
Sources: transformers' distributed/expert_parallel.py (AllToAllEP) and integrations/moe.py
(grouped_mm_experts_forward).
"""

from trainfit.estimator.blocks.moe.grouped import first_product, multiplies, sends, weight_gradients
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import INT64
from trainfit.estimator.program import highest
from trainfit.specs.blocks import Experts


def experts(step: Modules, block: Experts, weighted: int) -> None:
    """Rows out, grouped products by local experts, which mask what is not theirs, and rows back,
    where they are `weighted` in elements of so many bytes.
    """
    (rows,) = step.named(T=step.sizes.n * block.top_k)
    (h,) = step.named(latent=block.latent) if block.latent else (step.sizes.h,)
    trained = step.sizes.trains("experts")
    up, down = weight_gradients(step, block, h)
    x = step.tensor("rows by expert", rows, h)
    step.operation(
        "dispatch",
        saves=(step.several("orders of the rows sent", 2, rows, width=INT64),),
        borrows=(step.tensor("rows sent", rows, h),),
        holds=(step.tensor("rows received", rows, h),),
        backward=(step.several("gradients of rows, on their way", 2, rows, h),),
        demands=sends(step, rows, h),
    )
    gate_up, inputs = first_product(step, block, rows)
    of_x, of_gate_up = step.gradient(x), step.gradient(gate_up)
    step.operation(
        "experts_fc1",
        saves=(step.several("orders of the rows received", 2, rows, width=INT64),),
        for_weight=(x,) * trained,
        holds=(x,),
        borrows=(step.tensor("output before it is masked", *gate_up.shape),),
        backward=highest((of_x, step.gradient(x)), (of_x, of_gate_up)),
        leaves=up,
        demands=(multiplies(step, block, rows, gate_up.shape[-1], h),),
    )
    kind = step.by.experts_activation or ""
    act = step.activation(*inputs, name="experts_activation", kind=kind)
    y = step.tensor("rows by token", rows, h)
    of_y = step.gradient(y)
    step.operation(
        "experts_fc2",
        for_weight=(act,) * trained,
        borrows=(step.several("output masked, weighted, in the order received", 3, rows, h),),
        backward=highest((of_y, step.gradient(y)), (of_y, step.gradient(act))),
        leaves=down,
        demands=(multiplies(step, block, rows, act.shape[-1], h),),
    )
    way_back = step.several("rows before and after their way back", 2, rows, h)
    sent = sends(step, rows, h)
    step.operation("combine", saves=(y,), borrows=(way_back,), demands=sent)
    step.operation(
        "weighted_sum",
        borrows=(
            step.several("rows on both sides", 2, rows, h),
            step.tensor("rows, weighted", rows, h, width=weighted),
        ),
        backward=(
            step.several("gradients of rows and of their weights", 2, rows, h, width=weighted),
        ),
    )
