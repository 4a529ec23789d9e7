"""Which tables of the blocks a layer of PyTorch modules is made of, in forward order."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import ModuleType

from trainfit.estimator.blocks.attention import pytorch as attention
from trainfit.estimator.blocks.mla import pytorch as mla
from trainfit.estimator.blocks.mlp import pytorch as mlp
from trainfit.estimator.blocks.norm import pytorch as norms
from trainfit.estimator.blocks.recurrence import pytorch as recurrence
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.ledger import Group, Operation, Role, forward, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Norm,
    Recurrence,
    Sublayer,
)

TABLES: dict[str, ModuleType] = {
    "attention": attention,
    "mla": mla,
    "mlp": mlp,
    "norm": norms,
    "recurrence": recurrence,
}
"""Where the table of each kind of block stands; its docstring says what it follows."""


INPUT = "input of the blocks [n', h]"


def tables_of(plan: PytorchPlan) -> Mapping[str, ModuleType]:
    """The tables that a plan's layers are made of."""
    return {**TABLES, "moe": conventions_of(plan).experts}


def layer_operations(layer: Layer, sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Group, ...]:
    """The groups of one layer in forward order."""
    return tuple(
        group
        for sublayer in layer.sublayers
        for group in sublayer_operations(sublayer, sizes, plan)
    )


def held_in_forward(layer: Layer, sizes: PytorchLegend, plan: PytorchPlan) -> int:
    """Bytes that a layer's frame holds while its last block runs and no norm or product saves: the
    residual stream before each sublayer, and what the block reads.
    """
    last = layer.sublayers[-1]
    written_out = [_is_written_out(sublayer, sizes, plan) for sublayer in layer.sublayers]
    reads = bool(last.norms) and not any(_keeps_input(block, sizes, plan) for block in last.blocks)
    return (sum(written_out) + reads) * sizes.act


def holds_its_input(layer: Layer, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether what is held in forward has the layer's input in it, which saves it nowhere."""
    return _is_written_out(layer.sublayers[0], sizes, plan)


def held_in_cache(layer: Layer, sizes: PytorchLegend, plan: PytorchPlan) -> int:
    """Bytes that a cache of keys and values holds of this layer, beside what is saved."""
    keys = [block for block in layer.blocks if isinstance(block, Attention)]
    return sum(attention.cached(block, sizes, plan) for block in keys)


def _is_written_out(sublayer: Sublayer, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether the sublayer's norms keep copies of the residual stream and not the stream itself,
    as they do of one in fp32.
    """
    kinds = {each.kind for each in sublayer.norms}
    plain = plan.model.implementation.layer_norm == "written_out"
    copies = plain or ("layernorm" not in kinds and sizes.residual_bytes < norms.FP32)
    return bool(kinds) and not sizes.fused and copies


def sublayer_operations(
    sublayer: Sublayer, sizes: PytorchLegend, plan: PytorchPlan
) -> Iterator[Group]:
    """Norms, blocks, norms behind them, residual addition."""
    if not sublayer.trainable:
        sizes = replace(sizes, still=True)
    yield tuple(_inputs(sublayer, sizes, plan))
    for block in sublayer.blocks:
        yield block_operations(block, sizes, plan)
    behind = [_norm(each, sizes, plan, kept=False) for each in sublayer.post_norms]
    if plan.step.hidden_dropout:
        mask = saved("dropout mask [n', h]", len(sublayer.blocks) * sizes.h * sizes.n_shard)
        behind.append(Operation("dropout", (mask,)))
    if behind:
        yield tuple(behind)


def _inputs(sublayer: Sublayer, sizes: PytorchLegend, plan: PytorchPlan) -> Iterator[Operation]:
    """What the blocks read: the norm's output, which they keep once for all of them, or what is
    gathered of it from the tensor-parallel ranks. Without a norm they keep the residual stream.
    """
    readers = [block for block in sublayer.blocks if _keeps_input(block, sizes, plan)]
    kept = bool(readers) and not sizes.narrows
    for index, each in enumerate(sublayer.norms):
        alone = kept and not sizes.gathers
        yield _norm(each, sizes, plan, kept=alone, first=index == 0)
    if kept and sizes.gathers:
        gathered = saved(
            "gathered input of each block [n, h]", len(readers) * sizes.h * sizes.n * sizes.bytes
        )
        yield Operation("all_gather", (gathered,))
    elif kept and not sublayer.norms:
        yield Operation("residual", (saved(INPUT, sizes.act, Role.BLOCK_INPUT),))
    yield Operation("residual_addition", (forward("sum [n', h]", sizes.act),))


def _norm(
    norm: Norm, sizes: PytorchLegend, plan: PytorchPlan, *, kept: bool, first: bool = True
) -> Operation:
    return norms.norm(
        norm,
        sizes.n_shard,
        sizes,
        by=plan.model.implementation,
        width=sizes.residual_bytes,
        kept=kept,
        first=first,
    )


def _keeps_input(block: Block, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether a product of the block keeps what it reads."""
    match block:
        case Attention():
            return sizes.keeps_input("q_proj", "k_proj", "v_proj")
        case LatentAttention():
            return sizes.keeps_input("q_proj", "q_a_proj", "kv_a_proj_with_mqa")
        case Experts():
            kept: bool = conventions_of(plan).experts.keeps_input(block, sizes)
            return kept
        case Mlp():
            return sizes.keeps_input("gate_proj", "up_proj", "router")
        case _:
            return sizes.adapters is None


def block_operations(block: Block, sizes: PytorchLegend, plan: PytorchPlan) -> Group:
    """One block's table. A block known by its weights alone has none."""
    traits = plan.model.traits
    match block:
        case Attention():
            return attention.operations(block, sizes, plan)
        case LatentAttention():
            return mla.operations(block, sizes, plan)
        case Mlp():
            return mlp.operations(block, sizes, traits.activation)
        case Experts():
            experts: Group = conventions_of(plan).experts.operations(block, sizes, plan)
            return experts
        case Recurrence():
            return recurrence.operations(block, sizes)
        case _:
            return ()
