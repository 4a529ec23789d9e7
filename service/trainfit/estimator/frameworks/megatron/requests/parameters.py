"""The parameters of a rank one by one, as Megatron registers them.

Sources: megatron/core/transformer/attention.py, multi_latent_attention.py, mlp.py, moe/moe_layer.py
and models/gpt/gpt_model.py (the order in which modules are built), TransformerEngine's
module/grouped_linear.py (a weight for each expert).
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

from trainfit.estimator.blocks.head import weights as head
from trainfit.estimator.blocks.layer import block_weights
from trainfit.estimator.blocks.mtp import weights as mtp
from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.ledger import Split, Weight
from trainfit.estimator.local_parameters import ParameterTable, embedding_weights
from trainfit.estimator.placement import Content
from trainfit.specs.blocks import Block, Norm


class Matrix(NamedTuple):
    """A matrix by its elements and its shorter side, and the side `across` which tensor-parallel
    ranks have parts of it; 0 where each has all.
    """

    numel: int
    side: int
    across: int = 0


class LocalParameter(NamedTuple):
    """A parameter on one rank. One that is `shared` by the first and the last stage has a bucket
    of its own. A linear may read one that is `narrow` in fp8 or fp4. Beside adapters others are
    `frozen`: they have no gradients and no states. One that is neither a vector nor of the
    vocabulary is of `matrices`: one, or several where queries, keys and values are packed.
    """

    numel: int
    expert: bool = False
    vector: bool = False
    shared: bool = False
    narrow: bool = False
    frozen: bool = False
    matrices: tuple[Matrix, ...] = ()


class PipelineParameters:
    """The parameters of the chunks of a plan's ranks."""

    def __init__(
        self,
        table: ParameterTable,
        shapes: Iterable[tuple[int, int]],
        *,
        words: bool,
        head: bool,
        frozen: bool,
    ) -> None:
        """The `shapes` that are multiplied with on one rank; whether stages share the embedding's
        `words`, and the `head` with them; and whether all are `frozen`.
        """
        self._frozen = frozen
        self._sides = {rows * columns: min(rows, columns) for rows, columns in shapes}
        self._table, self._divided = table, table.divided
        self._words_shared, self._head_shared = words, head
        self.layer = cache(self._layer_parameters)
        """Those of a kind of layer; likewise of a multi-token prediction below."""
        self.depth = cache(self._depth)

    def of(self, content: Content) -> list[LocalParameter]:
        """The parameters of a chunk, in the order of its modules."""
        return [each for each in self._chunk(content) if each.numel]

    def _chunk(self, content: Content) -> Iterator[LocalParameter]:
        divided = self._divided
        if content.embedding_weights:
            words, *others = embedding_weights(divided)
            yield self._one(words)._replace(shared=self._words_shared)
            yield from map(self._one, others)
        for kind in content.kinds:
            yield from self.layer(kind)
        if content.final_norm:
            for each in divided.model.final_norms:
                yield from self._norm(each)
        if divided.model.mtp is not None:
            for _ in range(divided.model.mtp.built(content.mtp_layers)):
                yield from self.depth()
        if content.output_layer:
            rows, copied = divided.vocabulary_rows, content.head_copy
            for weight in head.weights(divided.model.output_layer, rows, copy_of_embedding=copied):
                yield self._one(weight)._replace(shared=self._head_shared)

    def _depth(self) -> tuple[LocalParameter, ...]:
        """Both norms, the projection, the layer, its norm."""
        spec = self._divided.model.mtp
        if spec is None:
            return ()
        projection, *_ = mtp.weights(spec, self._divided.model.hidden_size)
        *before, behind = map(self._norm, spec.norms)
        layer = self.layer(spec.layer_kind)
        return (*chain.from_iterable(before), self._one(projection), *layer, *behind)

    def _layer_parameters(self, kind: int) -> tuple[LocalParameter, ...]:
        found: list[LocalParameter] = []
        layer = self._divided.model.layer_kinds[kind]
        for sublayer in layer.sublayers:
            found += chain.from_iterable(map(self._norm, sublayer.norms))
            for block in sublayer.blocks:
                found += self._block(block)
            found += chain.from_iterable(map(self._norm, sublayer.post_norms))
        if layer.is_wide:
            found = [each._replace(narrow=False) for each in found]
        return tuple(found)

    def _norm(self, each: Norm) -> list[LocalParameter]:
        """Scale and shift, which are parameters of their own."""
        vector = self._one(norm.weights(each, "norm"))._replace(numel=each.width)
        return [vector] * (each.copies * (int(each.weight) + int(each.bias)))

    def _block(self, block: Block) -> Iterator[LocalParameter]:
        """The parameters of a block, what is projected with at once first. Of feed-forward networks
        the first matrices come before the second ones.
        """
        weights = list(block_weights(block, self._divided.model.hidden_size))
        packed = [each for each in weights if each.packed]
        if packed:
            yield self._one(*packed)
        for weight in weights:
            if weight.networks is not None:
                local, (count, inputs) = self._one(weight), weight.networks
                count //= self._divided.ep if local.expert else 1
                each = local.numel // count // (inputs + 1)
                for numel in (inputs * each, each):
                    matrices = (self._matrix(numel, weight),)
                    yield from [local._replace(numel=numel, matrices=matrices)] * count
            elif not weight.packed:
                yield self._one(weight)

    def _one(self, *weights: Weight) -> LocalParameter:
        local = self._table.local(weights)
        first = weights[0]
        vector = first.vector or first.bucket == "norm"
        linear = local.linear + local.expert
        is_matrix = not vector and linear + local.router > 0
        every = [(self._table.local([each]), each) for each in weights if is_matrix]
        return LocalParameter(
            local.dense + local.expert,
            first.split is Split.EXPERT,
            vector,
            narrow=linear > 0,
            frozen=self._frozen,
            matrices=tuple(
                [self._matrix(each.dense + each.expert, weight) for each, weight in every]
            ),
        )

    def _matrix(self, numel: int, weight: Weight) -> Matrix:
        """Routers, and parts of what is packed, read the residual stream, to which most others lead
        on the side that ranks do not share.
        """
        hidden = self._divided.model.hidden_size
        side = self._sides.get(numel) or min(hidden, numel // hidden)
        shared = weight.split is not Split.REPLICATED
        return Matrix(numel, side, (side if numel % hidden else hidden) * shared)
