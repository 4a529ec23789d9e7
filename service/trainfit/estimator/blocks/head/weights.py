"""Output layer: what it owns. Symbols: V vocabulary rows (padded), h width."""

from collections.abc import Iterator

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.architecture import OutputLayer


def weights(head: OutputLayer, rows: int, *, copy_of_embedding: bool) -> Iterator[Weight]:
    """Matrix [V, h] split over the vocabulary, unless it is the embedding's own on this stage.

    Source: megatron/core/models/gpt/gpt_model.py: a tied head on another stage than the
    embedding holds a copy of it.
    """
    if head.scores_labels:
        yield Weight("score", head.rows * head.width, "other", Split.REPLICATED)
        return
    if not head.tied or copy_of_embedding:
        yield Weight("output_layer", rows * head.width, "output_layer", Split.TENSOR)
    if head.bias:
        yield Weight("output_bias", rows, "output_layer", Split.TENSOR, vector=True)
