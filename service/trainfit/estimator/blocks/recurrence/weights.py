"""Mixers linear in the sequence: what they own."""

from collections.abc import Iterator
from math import prod

from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Recurrence


def weights(block: Recurrence) -> Iterator[Weight]:
    """Matrices are split over heads or channels, as the attention they stand for would be.

    Source: megatron/core/ssm/mamba_mixer.py and gated_delta_net.py divide every projection,
    convolution and per-head vector over tensor-parallel ranks.
    """
    for weight in block.weights:
        numel = prod(weight.shape)
        bucket = weight.bucket or block.bucket
        vector = len(weight.shape) == 1
        yield Weight(weight.name, numel, bucket, Split.TENSOR, weight.trainable, vector)
    for index, each in enumerate(block.norms):
        yield norm.weights(each, f"norm{index}")
