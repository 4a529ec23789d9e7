"""Every program of Megatron: what stands before the layers, the layers, what stands behind them."""

from collections.abc import Callable, Iterator
from typing import TypeVarTuple

from trainfit.estimator.blocks.embedding import transformer_engine as embedding
from trainfit.estimator.blocks.head import transformer_engine as head
from trainfit.estimator.blocks.mtp import transformer_engine as mtp
from trainfit.estimator.blocks.norm import transformer_engine as norm
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.run import MegatronStep
from trainfit.estimator.segment import Table, add_up
from trainfit.specs.architecture import Embedding, MultiTokenPrediction
from trainfit.specs.blocks import Norm

Given = TypeVarTuple("Given")
"""What a program is given besides the step that it is of."""


def added_up(
    sizes: Legend,
    way: MegatronStep,
    program: Callable[[TransformerEngine, *Given], Iterator[Group]],
    *given: *Given,
) -> Table:
    """The bytes of a program's operations. It reads the way that a step runs besides its sizes."""
    return add_up(tuple(program(TransformerEngine(sizes, way), *given)), way.step.recompute.dropped)


def embed(step: TransformerEngine, block: Embedding) -> Iterator[Group]:
    embedding.lookup(step, block)
    yield step.group()


def norms(step: TransformerEngine, *blocks: Norm) -> Iterator[Group]:
    for each in blocks:
        norm.final(step, each)
    yield step.group()


def output(step: TransformerEngine) -> Iterator[Group]:
    head.head(step)
    yield step.group()


def projection(step: TransformerEngine, spec: MultiTokenPrediction) -> Iterator[Group]:
    mtp.projection(step, spec)
    yield step.group()
