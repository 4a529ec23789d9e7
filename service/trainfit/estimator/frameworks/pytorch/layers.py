"""Which blocks' programs a layer of PyTorch modules is made of, in forward order."""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import NamedTuple

from trainfit.estimator.blocks.attention import pytorch as attention
from trainfit.estimator.blocks.mla import pytorch as mla
from trainfit.estimator.blocks.mlp import pytorch as mlp
from trainfit.estimator.blocks.norm import pytorch as norms
from trainfit.estimator.blocks.recurrence import pytorch as recurrence
from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import BYTE
from trainfit.estimator.run import PytorchWay
from trainfit.estimator.tensors import Role, Tensor
from trainfit.resolve.pytorch.plan import PytorchPlan
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

TABLES: dict[str, ModuleType] = {
    "attention": attention,
    "mla": mla,
    "mlp": mlp,
    "norm": norms,
    "recurrence": recurrence,
}
"""Where the program of each kind of block stands; its docstring says what it follows."""


def tables_of(plan: PytorchPlan) -> Mapping[str, ModuleType]:
    """The programs that a plan's layers are made of."""
    return {**TABLES, "moe": conventions_of(plan).experts}


class Ran(NamedTuple):
    """A sublayer, or a layer, that was run: its groups of operations and, in bytes, what its frame
    holds of the residual stream that no operation saves, what it holds of what its last blocks
    read, and what a cache of keys and values does. `counts` are the numbers of groups of
    each sublayer.
    """

    groups: tuple[Group, ...]
    stream: tuple[int, ...]
    inputs: int
    cached: int
    counts: tuple[int, ...]

    @property
    def held(self) -> int:
        """While the last block runs forward: the residual stream before each sublayer, and what the
        block reads.
        """
        return sum(self.stream) + self.inputs


def run_layer(layer: Layer, sizes: PytorchLegend, way: PytorchWay, experts: ModuleType) -> Ran:
    """The sublayers of one layer in forward order."""
    ran = [run_sublayer(sublayer, sizes, way, experts) for sublayer in layer.sublayers]
    return Ran(
        tuple([group for each in ran for group in each.groups]),
        tuple([bytes_ for each in ran for bytes_ in each.stream]),
        ran[-1].inputs,
        sum([each.cached for each in ran]),
        tuple([len(each.groups) for each in ran]),
    )


def run_sublayer(
    sublayer: Sublayer, sizes: PytorchLegend, way: PytorchWay, experts: ModuleType
) -> Ran:
    """Norms, blocks, norms behind them, residual addition. `experts` has the program of theirs."""
    if not sublayer.trainable:
        sizes = replace(sizes, still=True)
    if sublayer.wide:
        sizes = replace(sizes, narrow=None)
    step = Modules(sizes, way)
    width = sublayer.norms[0].width if sublayer.norms else sizes.h
    x = step.tensor(
        "input of the blocks",
        *(sizes.n_shard, sizes.h if width == sizes.h else width),
        width=sizes.residual_bytes,
        role=Role.BLOCK_INPUT,
    )
    inputs = _inputs(step, x, sublayer)
    for each, block in zip(inputs, sublayer.blocks, strict=True):
        _run(step, each, block, experts)
        step.end_group()
    _behind(step, sublayer)
    normed = bool(sublayer.norms)
    held = normed and not any(map(step.keeps, inputs))
    stream = sizes.act if normed and not step.saves(x) else 0
    groups = step.groups()
    inputs_held = sizes.act if held else 0
    return Ran(groups, (stream,), inputs_held, step.cached, (len(groups),))


def _inputs(step: Modules, x: Tensor, sublayer: Sublayer) -> list[Tensor]:
    """What each block reads: the output of its norm, or of the one norm of all, gathered from the
    tensor-parallel ranks. Without a norm it is the residual stream.
    """
    outputs = [norms.norm(step, x, each) for each in sublayer.norms]
    if not outputs:
        step.receives("residual", x)
        outputs = [x]
    blocks = len(sublayer.blocks)
    each_its_own = len(outputs) == blocks
    read = outputs if each_its_own else outputs[-1:] * blocks
    inputs = [step.gathered(y) for y in read]
    total = step.tensor("sum", step.sizes.n_shard, step.sizes.h, width=step.sizes.residual_bytes)
    step.operation("residual_addition", borrows=(total,))
    step.end_group()
    return inputs


def _behind(step: Modules, sublayer: Sublayer) -> None:
    """Norms of what the blocks made, and its dropout."""
    sizes = step.sizes
    for each in sublayer.post_norms:
        y = step.tensor(
            "output of the blocks", sizes.n_shard, each.width, width=sizes.residual_bytes
        )
        norms.norm(step, y, each)
    if step.way.step.hidden_dropout:
        shape = (len(sublayer.blocks), sizes.n_shard, sizes.h)
        step.operation("dropout", saves=(step.tensor("dropout mask", *shape, width=BYTE),))
    if sublayer.post_norms or step.way.step.hidden_dropout:
        step.end_group()


def _run(step: Modules, x: Tensor, block: Block, experts: ModuleType) -> None:
    """Runs one block's program. A block known by its weights alone keeps its input."""
    match block:
        case Attention():
            attention.attention(step, x, block)
        case LatentAttention():
            mla.latent_attention(step, x, block)
        case Mlp():
            mlp.mlp(step, x, block)
        case Experts():
            experts.mixture_of_experts(step, x, block)
        case Recurrence():
            recurrence.recurrence(step, x, block)
        case Opaque():
            step.operation(block.name, saves=step.shared(x) if step.sizes.adapters is None else ())
