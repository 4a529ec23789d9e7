"""Weights that belong to no other block: counted, whole on every rank."""

from collections.abc import Iterator
from math import prod

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Opaque


def weights(block: Opaque) -> Iterator[Weight]:
    """Whole on every rank: how a framework would split them is not known."""
    for weight in block.weights:
        bucket = weight.bucket or block.bucket
        split = Split.EXPERT if bucket == "routed_experts" else Split.REPLICATED
        vector = len(weight.shape) == 1
        yield Weight(weight.name, prod(weight.shape), bucket, split, weight.trainable, vector)
