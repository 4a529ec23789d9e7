"""Token embedding in Megatron. Symbols: estimator.legend.

Source: megatron/core/models/common/embeddings/language_model_embedding.py and
tensor_parallel/layers.py (VocabParallelEmbedding); its backward is PyTorch's
(aten/src/ATen/native/cuda/Embedding.cu and EmbeddingBackwardKernel.cu).
"""

from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import BYTE, FP32, INT64
from trainfit.estimator.program import highest
from trainfit.specs.architecture import Embedding

FEW_TOKENS = 3072
"""Up to so many, backward adds each token's gradient to its row at once."""
ROWS_PER_PARTIAL_SUM = 10
"""Beyond, it adds up so many of a row's first (NROWS_PER_THREAD)."""


def lookup(step: TransformerEngine, embedding: Embedding) -> None:
    """The lookup; its output is the first layer's input. Its weight gradient is dense: [V / t, h]
    is made at the end of every backward, from sums of the gradients of equal tokens, whose number
    is the largest that it can be. Frozen it has none, and keeps nothing.
    """
    sizes = step.sizes
    n, (h,) = sizes.n, step.named(h=embedding.width)
    saves = [step.tensor("token ids", n, width=INT64)]
    borrows = [step.tensor("embeddings before they are scattered", n, h)]
    if step.run.step.hidden_dropout:
        saves.append(step.tensor("dropout mask", sizes.n_shard, h, width=BYTE))
    if embedding.position_rows:
        borrows.append(step.tensor("position embeddings and their sum", 2, n, h))
    gathered = step.tensor("gathered gradient", sizes.n_gathered, h)
    weight = step.tensor("weight gradient", sizes.V // sizes.t, h)
    order = step.tensor("order of the tokens", 3, n, width=INT64)
    sums = n // ROWS_PER_PARTIAL_SUM + min(n, sizes.V // sizes.t) if n > FEW_TOKENS else 0
    partial = step.tensor("partial sums", sums, h, width=FP32)
    masked = step.tensor("gradient of own tokens", n if sizes.t > 1 else 0, h)
    if step.is_frozen:
        step.operation("embedding", borrows=tuple(borrows), demands=step.out_of_rows(h))
        return
    step.operation(
        "embedding",
        saves=saves,
        borrows=tuple(borrows),
        backward=highest(
            (gathered, masked), (masked, order, weight), (masked, order, weight, partial)
        ),
        demands=step.out_of_rows(h),
    )
