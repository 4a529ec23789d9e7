"""Token embedding of nanotron's Llama. Symbols: estimator.legend.

Source: nanotron's parallel/tensor_parallel/nn.py (TensorParallelEmbedding).
"""

from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.operations.widths import BYTE, INT64
from trainfit.specs.architecture import Embedding


def lookup(step: NanotronProgram, embedding: Embedding) -> None:
    """The lookup of the tokens whose rows a rank has, times a mask of them; its output is the first
    layer's input. The gradient of the matrix is dense. A tied matrix has the head's waiting.
    """
    sizes, tied = step.sizes, step.plan.model.output_layer.tied
    n, (h,) = sizes.n, step.named(h=embedding.width)
    rows = sizes.V // sizes.t
    found = step.tensor("embeddings", n, h)
    saves, borrows = [step.tensor("token ids", n, width=INT64)], [found]
    if sizes.t > 1:
        saves.append(step.tensor("tokens of other ranks", n, width=BYTE))
        borrows.append(step.tensor("masked embeddings", n, h))
    joins = tied and step.plan.layout.pipeline.pp == 1
    added = (step.tensor("weight gradient", rows, h),) if joins else step.added(rows, h)
    step.operation(
        "token_embedding",
        saves=saves,
        borrows=tuple(borrows),
        backward=(
            step.tensor("gathered gradient", sizes.n_gathered, h),
            *added,
        ),
        leaves=() if joins else step.left(rows, h),
    )
