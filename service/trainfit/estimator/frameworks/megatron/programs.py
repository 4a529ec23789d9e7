"""Every program of Megatron: what stands before the layers, the layers, what stands behind them.

Each is compiled once for a way of running, whatever the sizes.
"""

from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache

from trainfit.estimator.blocks.embedding import transformer_engine as embedding
from trainfit.estimator.blocks.head import transformer_engine as head
from trainfit.estimator.blocks.mtp import transformer_engine as mtp
from trainfit.estimator.blocks.norm import transformer_engine as norm
from trainfit.estimator.compiled import Compiled
from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import Legend
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.run import Way
from trainfit.specs.architecture import Embedding, MultiTokenPrediction
from trainfit.specs.blocks import Norm

MAX_COMPILED = 256
"""Some 30 kB each: those of every block of a few models in the ways that a search tries."""


@lru_cache(maxsize=MAX_COMPILED)
def compiled(way: Way, program: Callable[..., Iterator[Group]], *given: Hashable) -> Compiled:
    """A program of what is given. What a step reads besides its sizes is the way it runs."""

    def run(sizes: Legend) -> Iterator[Group]:
        return program(TransformerEngine(sizes, way), *given)

    return Compiled(run, way.step.recompute.dropped)


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
