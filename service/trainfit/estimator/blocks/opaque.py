"""Weights that belong to no other block: counted, whole on every rank."""

from collections.abc import Iterator
from math import prod

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Opaque

PROJECTOR = "projector"


def weights(block: Opaque) -> Iterator[Weight]:
    """Whole on every rank: how a framework would split them is not known."""
    for weight in block.weights:
        bucket = weight.bucket or block.bucket
        split = Split.EXPERT if bucket == "routed_experts" else Split.REPLICATED
        vector = len(weight.shape) == 1
        yield Weight(weight.name, prod(weight.shape), bucket, split, weight.trainable, vector)


def towers(spec: ModelSpec) -> Iterator[Weight]:
    """Vision and audio towers with their projectors, known by their numbers of parameters."""
    frozen, projector = spec.encoder_frozen_parameters, spec.projector_parameters or 0
    for name, numel, trainable in (
        ("encoder", spec.encoder_parameters - frozen - projector, True),
        (PROJECTOR, projector, True),
        ("encoder_frozen", frozen, False),
    ):
        if numel:
            yield Weight(name, numel, "vision", Split.REPLICATED, trainable)
