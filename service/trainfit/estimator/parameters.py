"""Parameters of a model as it is published: no split, no padding, tied weights once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainfit.estimator.blocks import opaque
from trainfit.estimator.blocks.embedding import weights as embedding
from trainfit.estimator.blocks.head import weights as head
from trainfit.estimator.blocks.layer import weights_by_kind
from trainfit.estimator.blocks.mtp import weights as mtp
from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.blocks.tower.weights import towers
from trainfit.estimator.ledger import Weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts, Layer


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Parameters by bucket. `total`, `active` and `trainable` leave out multi-token prediction.

    `active` are those that one token meets: of the routed experts, the share k / E.
    """

    total: int
    active: int
    trainable: int
    by_bucket: Mapping[str, int]
    outside_layers: Mapping[str, int]
    layer_kinds: tuple[Mapping[str, int], ...]
    mtp: int


def count_parameters(
    spec: ModelSpec, kinds: tuple[tuple[Weight, ...], ...] = ()
) -> ParameterCounts:
    """Counts by bucket: outside the layers, in each kind of layer, and in all. `kinds` are the
    weights by kind of layer, where they are known already.
    """
    kinds = kinds or weights_by_kind(spec)
    outside = tuple(_outside_layers(spec))
    by_bucket = _by_bucket(outside)
    frozen = _frozen(outside)
    inactive = 0
    layer_kinds = tuple(_by_bucket(weights) for weights in kinds)
    for index, counts in enumerate(layer_kinds):
        repeats = spec.pattern.count(index)
        for bucket, numel in counts.items():
            by_bucket[bucket] = by_bucket.get(bucket, 0) + numel * repeats
        frozen += _frozen(kinds[index]) * repeats
        inactive += _inactive(spec.layer_kinds[index], counts) * repeats
    total = sum(by_bucket.values())
    mtp_total = _mtp(spec, kinds)
    if mtp_total:
        by_bucket["mtp"] = mtp_total
    return ParameterCounts(
        total=total,
        active=total - inactive,
        trainable=total - frozen,
        by_bucket=by_bucket,
        outside_layers=_by_bucket(outside),
        layer_kinds=layer_kinds,
        mtp=mtp_total,
    )


def _outside_layers(spec: ModelSpec) -> Iterable[Weight]:
    yield from embedding.weights(spec.embedding, spec.embedding.rows)
    for each in spec.final_norms:
        yield norm.weights(each, "final_norm")
    yield from head.weights(spec.output_layer, spec.output_layer.rows, copy_of_embedding=False)
    for extra in spec.extras:
        yield from opaque.weights(extra)
    yield from towers(spec)


def _mtp(spec: ModelSpec, kinds: tuple[tuple[Weight, ...], ...]) -> int:
    if spec.mtp is None:
        return 0
    own = sum(weight.numel for weight in mtp.weights(spec.mtp, spec.hidden_size))
    layer = sum(weight.numel for weight in kinds[spec.mtp.layer_kind])
    return spec.mtp.built(spec.mtp.num_layers) * (own + layer)


def _by_bucket(weights: Iterable[Weight]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for weight in weights:
        counts[weight.bucket] = counts.get(weight.bucket, 0) + weight.numel
    return counts


def _frozen(weights: Iterable[Weight]) -> int:
    return sum(weight.numel for weight in weights if not weight.trainable)


def _inactive(layer: Layer, counts: Mapping[str, int]) -> int:
    """Routed-expert parameters that one token does not meet: the share 1 - k / E."""
    moe = [block for block in layer.blocks if isinstance(block, Experts)]
    if not moe:
        return 0
    routed, block = counts["routed_experts"], moe[0]
    return routed - routed * min(block.top_k, block.experts) // block.experts
