"""Which implementation of each block Megatron runs, arranged into layers.

The local implementation keeps the same tensors as TransformerEngine's with unfused attention; it
differs in its buffers and in norms that stand apart (megatron/core/models/gpt/gpt_layer_specs.py).
A layer is a list of groups of operations; what a group holds until its forward returns ends with
the group.
"""

from collections.abc import Iterator, Mapping
from types import ModuleType

from trainfit.estimator.blocks.attention import transformer_engine as attention
from trainfit.estimator.blocks.mla import transformer_engine as mla
from trainfit.estimator.blocks.mlp import transformer_engine as mlp
from trainfit.estimator.blocks.moe import transformer_engine as moe
from trainfit.estimator.blocks.norm import transformer_engine as norm
from trainfit.estimator.blocks.recurrence import transformer_engine as recurrence
from trainfit.estimator.ledger import Group, Operation, backward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import MegatronPlan
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Recurrence,
    Sublayer,
)

TABLES: Mapping[str, ModuleType] = {
    "attention": attention,
    "mla": mla,
    "mlp": mlp,
    "moe": moe,
    "norm": norm,
    "recurrence": recurrence,
}
"""Where the table of each kind of block stands; its docstring says what it follows."""


def layer_operations(layer: Layer, sizes: Legend, plan: MegatronPlan) -> tuple[Group, ...]:
    """The groups of one layer in forward order."""
    return tuple(
        group for sublayer in layer.sublayers for group in _sublayer(sublayer, sizes, plan)
    )


def _sublayer(sublayer: Sublayer, sizes: Legend, plan: MegatronPlan) -> Iterator[Group]:
    """Norms, blocks, norms behind them, residual addition."""
    yield tuple(_inputs(sublayer, sizes, plan))
    for block in sublayer.blocks:
        yield block_operations(block, sizes, plan)
    behind = [norm.after_blocks(each, sizes) for each in sublayer.post_norms]
    if plan.step.hidden_dropout:
        mask = saved("dropout mask [n', h]", sizes.h * sizes.n_shard)
        behind.append(Operation("bias_dropout_add", (mask,)))
    if behind:
        yield tuple(behind)


def _inputs(sublayer: Sublayer, sizes: Legend, plan: MegatronPlan) -> Iterator[Operation]:
    """What the blocks read. TransformerEngine fuses the norm with the linear behind it, except
    before experts and latent attention, where several modules share its output.
    """
    apart = plan.framework.transformer_impl == "local" or any(
        isinstance(block, Experts | LatentAttention) for block in sublayer.blocks
    )
    feeds_forward = any(isinstance(block, Mlp | Experts) for block in sublayer.blocks)
    place = "mlp_norm" if feeds_forward else "attn_norm"
    if sizes.streams > 1:
        streams = saved("residual streams [streams, n', h]", sizes.streams * sizes.act)
        yield Operation("hyper_connection", (streams,))
    for each in sublayer.norms:
        make = norm.before_blocks if apart else norm.fused_with_linear
        yield make(each, sizes, place)
    if not sublayer.norms:
        yield Operation("residual", (saved("input of the blocks [n', h]", sizes.act),))


def block_operations(block: Block, sizes: Legend, plan: MegatronPlan) -> Group:
    """One block's table, with weight gradients where they are not added within the GEMM."""
    table = _table(block, sizes, plan)
    if plan.framework.gradient_accumulation_fusion:
        return table
    experts = block.experts // sizes.e if isinstance(block, Experts) else 1
    return tuple([_with_weight_gradient(each, experts, sizes) for each in table])


def _with_weight_gradient(operation: Operation, experts: int, sizes: Legend) -> Operation:
    if operation.gemm is None:
        return operation
    rows, columns = operation.gemm
    matrices = experts if operation.name.startswith("experts_") else 1
    gradient = backward("weight gradient", matrices * rows * columns * sizes.bytes)
    return operation._replace(tensors=(*operation.tensors, gradient))


def _table(block: Block, sizes: Legend, plan: MegatronPlan) -> Group:
    """One block's table. A block known by its weights alone has none."""
    match block:
        case Attention():
            return attention.operations(block, sizes, plan)
        case LatentAttention():
            return mla.operations(block, sizes, plan)
        case Mlp():
            return mlp.operations(block, sizes)
        case Experts():
            return moe.operations(block, sizes, plan)
        case Recurrence():
            return recurrence.operations(block, sizes)
        case _:
            return ()
