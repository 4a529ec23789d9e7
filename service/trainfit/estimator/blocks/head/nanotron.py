"""Output layer and cross entropy of nanotron's Llama. Symbols: estimator.legend.

Sources: nanotron's models/llama.py (LlamaModel, Loss), parallel/tensor_parallel/functional.py
(_ShardedCrossEntropy).
"""

from trainfit.estimator.ledger import OperationKind
from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.operations.widths import BYTE, FP32, INT64
from trainfit.estimator.tensors import Tensor


def head(step: NanotronProgram, x: Tensor) -> None:
    """Logits [n, V / t] of the final norm's output, a copy of them in fp32, the loss. That turns
    their difference to the greatest into the softmax in place, and in backward that into the
    gradient.
    """
    sizes = step.sizes
    n, rows = sizes.n, sizes.V // sizes.t
    logits = step.column_linear("lm_head", x, rows, "logits")
    in_fp32 = step.tensor("logits in fp32", n, rows, width=FP32)
    step.operation(
        "cast_to_fp32",
        borrows=(logits, in_fp32),
        backward=(step.gradient(logits), step.tensor("gradient in fp32", n, rows, width=FP32)),
    )
    step.operation(
        "loss",
        saves=(
            step.tensor("softmax", n, rows, width=FP32),
            step.tensor("labels of this rank", n, width=INT64),
            step.tensor("labels of other ranks", n, width=BYTE),
        ),
        borrows=(in_fp32,),
        kind=OperationKind.LOSS,
    )
