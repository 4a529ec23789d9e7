"""Token embedding: what it owns. Symbols: V vocabulary rows (padded), h width."""

from collections.abc import Iterator

from trainfit.estimator.blocks.norm import weights as norm
from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.architecture import Embedding


def weights(embedding: Embedding, rows: int) -> Iterator[Weight]:
    """Tokens [V, h] split over the vocabulary; learned positions and norms stay whole.

    Source: megatron/core/models/common/embeddings/language_model_embedding.py.
    """
    yield Weight("word_embeddings", rows * embedding.width, "embedding", Split.TENSOR)
    if embedding.position_rows:
        numel = embedding.position_rows * (embedding.position_width or embedding.width)
        yield Weight("position_embeddings", numel, "position_embedding", Split.REPLICATED)
    for index, each in enumerate(embedding.norms):
        yield norm.weights(each, f"norm{index}")
