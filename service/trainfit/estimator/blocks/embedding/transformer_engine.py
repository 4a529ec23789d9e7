"""Token embedding in Megatron. Symbols: estimator.legend.

Source: megatron/core/models/common/embeddings/language_model_embedding.py and
tensor_parallel/layers.py (VocabParallelEmbedding).
"""

from trainfit.estimator.operations.transformer_engine import BYTE, INT64, TransformerEngine
from trainfit.specs.architecture import Embedding


def lookup(step: TransformerEngine, embedding: Embedding) -> None:
    """The lookup; its output is the first layer's input. Its weight gradient is dense: [V / t, h]
    is made at the end of every backward.
    """
    sizes = step.sizes
    n, (h,) = sizes.n, step.named(h=embedding.width)
    saves = [step.tensor("token ids", n, width=INT64)]
    borrows = [step.tensor("embeddings before they are scattered", n, h)]
    if step.run.step.hidden_dropout:
        saves.append(step.tensor("dropout mask", sizes.n_shard, h, width=BYTE))
    if embedding.position_rows:
        borrows.append(step.tensor("position embeddings and their sum", 2, n, h))
    step.operation(
        "embedding",
        saves=saves,
        borrows=tuple(borrows),
        backward=(
            step.tensor("gathered gradient", sizes.n_gathered, h),
            step.tensor("weight gradient", sizes.V // sizes.t, h),
        ),
        demands=step.out_of_rows(h),
    )
