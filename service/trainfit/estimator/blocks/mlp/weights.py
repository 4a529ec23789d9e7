"""Feed-forward network: what it owns. Symbols: h hidden, f width."""

from collections.abc import Iterator

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Mlp


def weights(block: Mlp, hidden: int) -> Iterator[Weight]:
    """fc1 [2f or f, h] column-parallel, fc2 [h, f] row-parallel with a whole bias.

    Source: megatron/core/transformer/mlp.py.
    """
    h_in = block.input_size or hidden
    h_out = block.output_size or hidden
    inputs = 2 if block.gated else 1
    yield Weight("fc1", inputs * block.ffn * h_in, block.bucket, Split.TENSOR)
    yield Weight("fc2", h_out * block.ffn, block.bucket, Split.TENSOR)
    if block.bias:
        yield Weight("fc1_bias", inputs * block.ffn, block.bucket, Split.TENSOR, vector=True)
        yield Weight("fc2_bias", h_out, block.bucket, Split.REPLICATED, vector=True)
