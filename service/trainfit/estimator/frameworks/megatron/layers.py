"""Which implementation of each block Megatron runs, arranged into layers.

The local implementation keeps the same tensors as TransformerEngine's with unfused attention; it
differs in its buffers and in norms that stand apart (megatron/core/models/gpt/gpt_layer_specs.py).
A layer is a list of groups of operations; what a group holds until its forward returns ends with
the group.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from trainfit.estimator.blocks.attention import transformer_engine as attention
from trainfit.estimator.blocks.mla import transformer_engine as mla
from trainfit.estimator.blocks.mlp import transformer_engine as mlp
from trainfit.estimator.blocks.moe import transformer_engine as moe
from trainfit.estimator.blocks.norm import transformer_engine as norm
from trainfit.estimator.blocks.recurrence import transformer_engine as recurrence
from trainfit.estimator.ledger import BlockOperation, Group, OperationKind
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE
from trainfit.estimator.run import MegatronRun, MegatronStep
from trainfit.estimator.tensors import Role, Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Opaque,
    Recurrence,
    Sublayer,
)
from trainfit.specs.framework import OF_MIXERS, CudaGraphScope

SHARED = "shared_experts"
"""The module of experts that every token meets."""
TABLES: Mapping[str, ModuleType] = {
    "attention": attention,
    "mla": mla,
    "mlp": mlp,
    "moe": moe,
    "norm": norm,
    "recurrence": recurrence,
}
"""Where the table of each kind of block stands; its docstring says what it follows."""


def sublayer_groups(step: TransformerEngine, sublayer: Sublayer) -> Iterator[Group]:
    """Norms, every block, norms behind them with the residual addition."""
    if sublayer.wide:
        step = step.wide()
    x = _inputs(step, sublayer)
    yield step.group()
    for block in sublayer.blocks:
        _run(step, x, block)
        yield step.group()
    for each in sublayer.post_norms:
        norm.after_blocks(step, each)
    if step.run.step.hidden_dropout:
        mask = step.tensor("dropout mask", step.sizes.n_shard, step.sizes.h, width=BYTE)
        step.operation("bias_dropout_add", saves=(mask,))
    behind = step.group()
    if behind:
        yield behind


def _inputs(step: TransformerEngine, sublayer: Sublayer) -> Tensor:
    """What the blocks read. TransformerEngine fuses the norm with the linear behind it, except
    before experts and latent attention, where several modules share its output.
    """
    sizes = step.sizes
    apart = norms_stand_apart(sublayer, step.run)
    feeds_mlp = any(isinstance(block, Mlp | Experts) for block in sublayer.blocks)
    if sizes.streams > 1:
        streams = step.tensor("residual streams", sizes.streams, sizes.n_shard, sizes.h)
        step.operation("hyper_connection", saves=(streams,))
    if not sublayer.norms:
        return step.tensor("input", sizes.n_shard, sizes.h)
    place = OFFLOADED + ("mlp_norm" if feeds_mlp else "attn_norm")
    x = None
    for each in sublayer.norms:
        if x is None or x.shape[-1] != each.width:
            width = norm.width(step, each)
            x = step.tensor(
                "norm input", sizes.n_shard, width, dropped_by=(place,), role=Role.BLOCK_INPUT
            )
        if apart:
            y = norm.before_blocks(step, x, each)
        else:
            y = norm.fused_with_linear(step, x, each, feeds_mlp=feeds_mlp)
    return y


def is_captured(sublayer: Sublayer, scope: tuple[CudaGraphScope, ...]) -> bool:
    """Whether CUDA graphs of this scope capture a sublayer as a whole. A router alone borrows
    little. Source: megatron/core/transformer/transformer_layer.py (_te_cuda_graph_capture).
    """
    if not scope:
        return True
    for block in sublayer.blocks:
        match block:
            case Attention() | LatentAttention():
                return "attn" in scope
            case Recurrence():
                return OF_MIXERS in scope
            case Mlp():
                return "mlp" in scope
            case Experts():
                return "moe" in scope
            case Opaque():
                continue
    return False


def graph_mask(layer: Layer, sizes: Legend, run: MegatronRun) -> Tensor | None:
    """The mask [b, 1, s / c, s] of one byte that TransformerEngine's graphs of attention read,
    whatever masks it: every layer has one for each micro-batch in flight. Source:
    megatron/core/transformer/transformer_layer.py (get_layer_static_inputs).
    """
    framework = run.framework
    attends = any(isinstance(block, Attention | LatentAttention) for block in layer.blocks)
    captures = not framework.cuda_graph_scope or "attn" in framework.cuda_graph_scope
    if framework.cuda_graph_impl != "transformer_engine" or not (attends and captures):
        return None
    return Tensor("mask of a graph", (sizes.b, 1, sizes.s, sizes.s * sizes.c), BYTE, ())


def captured_operations(
    sublayer: Sublayer, groups: Sequence[Group], run: MegatronRun
) -> Sequence[BlockOperation]:
    """What TransformerEngine's CUDA graphs capture of a sublayer: all, or what comes up to the
    router or, with `moe_preprocess`, to where rows leave for their experts, but no shared experts
    that run beside that. Sources: megatron/core/transformer/moe/moe_layer.py (route, preprocess)
    and moe_utils.py (maybe_skip_or_early_return_by_cudagraph).
    """
    scope = run.framework.cuda_graph_scope
    every = [operation for group in groups for operation in group]
    if is_captured(sublayer, scope):
        return every
    experts = any(isinstance(block, Experts) for block in sublayer.blocks)
    if not experts or "moe_router" not in scope:
        return ()
    kinds = [operation.kind for operation in every]
    if "moe_preprocess" not in scope:
        count = 1 + kinds.index(OperationKind.ROUTING)
    elif OperationKind.PERMUTATION in kinds:
        count = 1 + kinds.index(OperationKind.PERMUTATION)
    else:
        count = kinds.index(OperationKind.EXCHANGE)
    beside = run.routing.shared_expert_overlap
    first = every[:count]
    return [each for each in first if not (beside and SHARED in each.modules)]


def norms_stand_apart(sublayer: Sublayer, run: MegatronRun | MegatronStep) -> bool:
    """Whether the norms before a sublayer's blocks are modules of their own."""
    return run.framework.transformer_impl == "local" or any(
        isinstance(block, Experts | LatentAttention) for block in sublayer.blocks
    )


def _run(step: TransformerEngine, x: Tensor, block: Block) -> None:
    """Runs one block's program. A block known by its weights alone keeps its input."""
    match block:
        case Attention():
            attention.attention(step, x, block)
        case LatentAttention():
            mla.latent_attention(step, x, block)
        case Mlp():
            mlp.mlp(step, x, block)
        case Experts():
            moe.mixture_of_experts(step, x, block)
        case Recurrence():
            recurrence.recurrence(step, x, block)
        case Opaque():
            step.operation(block.name, saves=(x,))
