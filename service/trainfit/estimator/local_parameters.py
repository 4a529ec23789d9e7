"""Parameters of a chunk on one GPU, before data-parallel ranks share anything out.

Symbols: estimator.legend. A dense parameter is divided over t, one of an expert over e x.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from operator import add, sub
from typing import NamedTuple

from trainfit.estimator.blocks import opaque
from trainfit.estimator.blocks.embedding import weights as embedding
from trainfit.estimator.blocks.head import weights as head
from trainfit.estimator.blocks.layer import weights_by_kind
from trainfit.estimator.blocks.mtp import weights as mtp
from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.blocks.tower.weights import towers
from trainfit.estimator.ledger import Split, Weight
from trainfit.estimator.memo import Memo
from trainfit.estimator.parameters import ParameterCounts, count_parameters
from trainfit.estimator.placement import Content, Placement
from trainfit.estimator.results import Chunk
from trainfit.resolve.plan import Plan
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Bucket, Layer

LINEAR_BUCKETS = ("attention", "linear_attention", "dense_mlp", "shared_experts", "mtp")


class Local(NamedTuple):
    """Parameters of a stretch of a model: over all ranks, and on one GPU by kind.

    `linear` are the dense ones that stand in matrices of linear layers; `wide_linear` and
    `wide_expert` those, and those of experts, of layers that do not multiply in fp8 or fp4.
    """

    whole: int = 0
    dense: int = 0
    expert: int = 0
    router: int = 0
    norm: int = 0
    linear: int = 0
    wide_linear: int = 0
    wide_expert: int = 0

    @property
    def of_experts(self) -> "Local":
        """The parameters of routed experts on one GPU."""
        return Local(expert=self.expert, wide_expert=self.wide_expert)

    def __add__(self, other: "Local") -> "Local":  # type: ignore[override]
        return Local(*map(add, self, other))

    def minus(self, other: "Local") -> "Local":
        return Local(*map(sub, self, other))

    def times(self, count: int) -> "Local":
        return Local(*[count * each for each in self])


class ChunkParameters(NamedTuple):
    """Parameters of one chunk by where they stand."""

    all: Local
    embedding: int
    output_layer: int
    mtp: int


class DividedModel(NamedTuple):
    """A model, and how the ranks of a stage divide its weights."""

    model: ModelSpec
    vocabulary_rows: int
    tp: int
    ep: int
    etp: int
    divides_embedding: bool
    divides_towers: bool = False


def divided_model(plan: Plan) -> DividedModel:
    """All of a plan that its parameters on one GPU rest on."""
    layout = plan.layout
    return DividedModel(
        plan.model,
        plan.vocabulary_rows,
        layout.tp,
        layout.ep,
        layout.etp,
        layout.divides_embedding,
        layout.divides_towers,
    )


def embedding_weights(divided: DividedModel) -> Iterator[Weight]:
    """The weights of the embedding, whole on every rank where nobody divides the vocabulary."""
    for weight in embedding.weights(divided.model.embedding, divided.vocabulary_rows):
        whole = weight.split is Split.TENSOR and not divided.divides_embedding
        yield weight._replace(split=Split.REPLICATED) if whole else weight


class ParameterTable:
    """Local parameters of every stretch of a model, each counted once: of all its weights, or of
    those that are `wanted`.
    """

    def __init__(
        self, divided: DividedModel, wanted: Callable[[Weight], bool] | None = None
    ) -> None:
        self.divided = divided
        self._wanted = wanted
        self._chunks: dict[Content, ChunkParameters] = {}
        spec = divided.model
        self._weights = weights_by_kind(spec)
        self._kinds = [
            self._of_layer(*each) for each in zip(spec.layer_kinds, self._weights, strict=True)
        ]
        self._embedding = self.local(embedding_weights(divided))
        self._final_norms = self.local(norm.weights(each, "final") for each in spec.final_norms)
        self._extras = self.local(
            weight for extra in spec.extras for weight in opaque.weights(extra)
        ) + self.local(towers(spec, divided=divided.divides_towers))
        self._mtp = Local()
        if spec.mtp is not None:
            own = self.local(mtp.weights(spec.mtp, spec.hidden_size))
            self._mtp = own + self._kinds[spec.mtp.layer_kind]

    @cached_property
    def counts(self) -> ParameterCounts:
        """The counts of the whole model, before any split."""
        return count_parameters(self.divided.model, self._weights)

    def chunk(self, content: Content) -> ChunkParameters:
        """Parameters of a chunk, those of a stretch once for each time that it stands there."""
        if content not in self._chunks:
            self._chunks[content] = self._counted(content)
        return self._chunks[content]

    def _counted(self, content: Content) -> ChunkParameters:
        total = Local()
        for kind in set(content.kinds):
            total += self._kinds[kind].times(content.kinds.count(kind))
        embedded = outputs = mtp_parameters = 0
        if content.embedding_weights:
            total += self._embedding
            embedded = self._embedding.dense
        if content.embedding:
            total += self._extras
        if content.output_layer:
            weights = head.weights(
                self.divided.model.output_layer,
                self.divided.vocabulary_rows,
                copy_of_embedding=content.head_copy,
            )
            output = self.local(weights)
            total += output
            outputs = output.dense
        if content.final_norm:
            total += self._final_norms
        predicting = self.divided.model.mtp
        if predicting is not None:
            depths = self._mtp.times(predicting.built(content.mtp_layers))
            total += depths
            mtp_parameters = depths.dense + depths.expert
        return ChunkParameters(total, embedded, outputs, mtp_parameters)

    def _of_layer(self, layer: Layer, weights: Iterable[Weight]) -> Local:
        local = self.local(weights)
        if not layer.is_wide:
            return local
        return local._replace(wide_linear=local.linear, wide_expert=local.expert)

    def kind(self, kind: int) -> Local:
        """Parameters of one layer of a kind."""
        return self._kinds[kind]

    def largest(self, content: Content) -> int:
        """Elements on one GPU of the largest weight."""
        weights = [weight for kind in set(content.kinds) for weight in self._weights[kind]]
        here = [self.local([weight]) for weight in weights]
        return max(self._embedding.dense, *(local.dense + local.expert for local in here), 0)

    def small(self, content: Content, most: int) -> int:
        """Elements of all weights of the layers that have at most so many each."""
        sizes = [
            sum(weight.numel for weight in weights if weight.numel <= most)
            for weights in self._weights
        ]
        return sum(sizes[kind] for kind in content.kinds)

    @property
    def depth(self) -> Local:
        """Parameters of one depth of multi-token prediction."""
        return self._mtp

    def local(self, weights: Iterable[Weight]) -> Local:
        """Parameters of these weights, over all ranks and on one GPU."""
        divided = self.divided
        whole = dense = expert = linear = 0
        buckets: dict[Bucket, int] = {"router": 0, "norm": 0}
        for weight in weights if self._wanted is None else filter(self._wanted, weights):
            whole += weight.numel
            if weight.split is Split.EXPERT:
                expert += weight.numel // (divided.ep * divided.etp)
                continue
            here = weight.numel // divided.tp if weight.split is Split.TENSOR else weight.numel
            dense += here
            if weight.bucket in buckets:
                buckets[weight.bucket] += here
            elif weight.bucket in LINEAR_BUCKETS and not weight.vector:
                linear += here
        return Local(whole, dense, expert, buckets["router"], buckets["norm"], linear)


def parameters_of(plan: Plan, memo: Memo) -> ParameterTable:
    """A plan's table, made once for all that share it."""
    return memo(ParameterTable, divided_model(plan))


def chunk_result(placement: Placement, parameters: ChunkParameters) -> Chunk:
    """The chunk as an estimate shows it."""
    local, content = parameters.all, placement.content
    return Chunk(
        vpp_rank=placement.vpp_rank,
        layers=list(placement.layers),
        embedding=content.embedding,
        output_layer=content.output_layer,
        mtp_layers=content.mtp_layers,
        parameters=local.dense + local.expert,
        expert_parameters=local.expert,
        router_parameters=local.router,
        norm_parameters=local.norm,
        embedding_parameters=parameters.embedding,
        output_layer_parameters=parameters.output_layer,
        mtp_parameters=parameters.mtp,
    )
