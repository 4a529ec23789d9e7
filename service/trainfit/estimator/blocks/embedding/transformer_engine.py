"""Token embedding in Megatron. Symbols: estimator.legend.

Source: megatron/core/models/common/embeddings/language_model_embedding.py and
tensor_parallel/layers.py (VocabParallelEmbedding).
"""

from trainfit.estimator.ledger import Operation, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import MegatronPlan
from trainfit.specs.architecture import Embedding

TOKEN_BYTES = 8
"""Token ids are int64."""


def operation(embedding: Embedding, sizes: Legend, plan: MegatronPlan) -> Operation:
    """The lookup; its output is the first layer's input. Its weight gradient is dense: [V / t, h]
    is made at the end of every backward.
    """
    n, h, width = sizes.n, embedding.width, sizes.bytes
    full = h * n * width
    positions = 2 * full if embedding.position_rows else 0
    mask = h * sizes.n_shard if plan.step.hidden_dropout else 0
    return Operation(
        "embedding",
        (
            saved("token ids [n]", TOKEN_BYTES * n),
            saved("dropout mask [n', h]", mask),
            forward("embeddings before they are scattered [n, h]", full),
            forward("position embeddings and their sum [n, h]", positions),
            backward("gathered gradient [n, h]", h * sizes.n_gathered * width),
            backward("weight gradient [V / t, h]", sizes.V * h * width // sizes.t),
        ),
    )
