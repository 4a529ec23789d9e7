"""Experts one after the other, each with linears of its own, as transformers ran them before 5.0.

Symbols: estimator.legend; r rows of an expert, n k / E where routing is balanced, f_e its width.
Each keeps what its linears keep, and borrows what one expert does. Backward begins with the last
when all have kept theirs; those before it are alike. Sources: transformers 4.48's
modeling_mixtral.py (MixtralSparseMoeBlock) and modeling_deepseek_v3.py (DeepseekV3MoE.moe),
bitsandbytes' nn/modules.py (Linear4bit.forward).
"""

from fractions import Fraction
from typing import NamedTuple

from trainfit.estimator.demands import Product
from trainfit.estimator.operations.pytorch import Modules, Parts
from trainfit.estimator.operations.widths import INT64
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Experts


class AlikeExperts(NamedTuple):
    """Of so many `experts` that are alike: rows of each, features, and bytes of an element of what
    their linears read and make.
    """

    experts: int
    rows: int
    h: int
    f: int
    width: int | Fraction


def experts(step: Modules, x: Tensor, block: Experts, weighted: int) -> None:
    """Rows of x [n, h] to each expert, its network, and its rows times their weights, which are
    elements of so many bytes, added to the output [n, h].
    """
    (k,) = step.named(k=block.top_k)
    (f,) = step.named(f_e=block.ffn)
    (h,) = step.named(latent=block.latent) if block.latent else (step.sizes.h,)
    width = x.width if step.sizes.is_quantised("experts") else step.sizes.bytes
    output = step.tensor("output of the experts", step.sizes.n, h, width=max(x.width, weighted))
    one_hot = step.tensor("choices, one-hot", step.sizes.n, k, block.experts, width=INT64)
    step.operation("experts", holds=(output, one_hot))
    rows = step.sizes.n * k // block.experts
    for count in (block.experts - 1, 1):
        if count:
            _alike(step, x, block, AlikeExperts(count, rows, h, f, width), weighted)


def _alike(step: Modules, x: Tensor, block: Experts, sizes: AlikeExperts, weighted: int) -> None:
    """Experts that are alike: gate, activation, linear factor and linear out of each. Adding rows
    up (index_add_) keeps them, for the shape that their gradient has (derivatives.yaml).
    """
    count, rows, h, f, width = sizes
    read = _input(step, "rows of an expert", sizes, h, x.width)
    of_x, own = step.passed_back(x, "input gradient"), "input gradient of an expert"
    of_read = step.tensor("gradient of the rows", rows, h, width=x.width)
    step.operation(
        "experts_rows",
        saves=(step.of_each("rows of an expert and their choices", count, rows, 2, width=INT64),),
        output=read,
        backward=(of_x, step.tensor(own, *x.shape, width=x.width), of_read),
    )
    up = step.of_each("linear factor", count, rows, f, width=width)
    gate = step.of_each("gate", count, rows, f, width=width) if block.gated else up
    act = _input(step, "activation output", sizes, f, width)
    of_up, of_gate, of_activated, of_act = (
        step.tensor(f"gradient of {name}", rows, f, width=width)
        for name in ("the linear factor", "the gate", "the activated gate", "the output")
    )
    _linear(step, "experts_fc1", sizes, read, gate, of_gate, of_read)
    if block.gated:
        activated = step.of_each("activated", count, rows, f, width=width)
        apart = not step.sizes.fused
        step.operation(
            "experts_activation",
            saves=(gate, activated) if apart else (gate,),
            backward=(of_activated, of_gate, of_read) if apart else (of_gate, of_read),
            output=activated if apart else None,
        )
        meanwhile = of_activated if apart else of_gate
        _linear(step, "experts_fc1", sizes, read, up, of_up, of_read, meanwhile)
        gradients = (of_act, of_up, meanwhile)
        step.operation("experts_gating", saves=(up,), output=act, backward=gradients)
    else:
        step.operation("experts_activation", saves=(gate,), output=act, backward=(of_act, of_gate))
    y = step.of_each("output of an expert", count, rows, h, width=width)
    of_y = step.tensor("gradient of the output", rows, h, width=width)
    _linear(step, "experts_fc2", sizes, act, y, of_y, of_act)
    weighs, added = max(width, weighted), max(x.width, weighted)
    parts = step.of_each("weighted rows", count, rows, h, width=added)
    step.operation(
        "weighted_sum",
        saves=(y, step.tensor("weights of rows", count, rows, width=weighs), parts),
        borrows=(step.tensor("weighted output", rows, h, width=weighs),) * (weighs != added),
        backward=(step.several("gradients of weighted rows", 2, rows, h, width=weighs), of_y),
    )


def _input(
    step: Modules, name: str, sizes: AlikeExperts, features: int, width: int | Fraction
) -> Tensor:
    """What a linear of an expert reads: of each where they are trained, and keep it as it is."""
    keeps = step.sizes.trains("experts") and width <= step.sizes.bytes
    return step.of_each(name, sizes.experts if keeps else 1, sizes.rows, features, width=width)


def _linear(
    step: Modules,
    name: str,
    sizes: AlikeExperts,
    x: Tensor,
    y: Tensor,
    of_y: Tensor,
    of_x: Tensor,
    *meanwhile: Tensor,
) -> None:
    """A linear of each expert. Autocast narrows what it reads, and what it keeps for the gradient
    of its weight. Other gradients may be there `meanwhile`.
    """
    features, inputs = y.shape[-1], x.shape[-1]
    trained, parts = step.sizes.trains("experts"), Parts()
    step.weight("experts", (features, inputs), parts, trained=trained, count=sizes.experts)
    kept, borrowed = x, list(parts.borrows)
    if x.width > step.sizes.bytes:
        kept = step.of_each(f"{x.name} in the narrow type", sizes.experts, sizes.rows, inputs)
        borrowed += [] if trained else [step.tensor(kept.name, sizes.rows, inputs)]
    if not trained or kept is not x:
        borrowed.append(x)
    step.operation(
        name,
        reads=(x,),
        saves=tuple(parts.saves),
        for_weight=(kept,) * trained,
        borrows=(*borrowed, y),
        backward=(*parts.backward, of_y, of_x, *meanwhile),
        leaves=tuple(parts.leaves),
        output=y,
        demands=(
            Product(sizes.experts * sizes.rows, inputs, features, sizes.experts, 1 + trained),
        ),
    )
