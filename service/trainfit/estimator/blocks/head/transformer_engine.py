"""Final norm, output layer and cross entropy in Megatron. Symbols: estimator.legend.

Sources: tensor_parallel/layers.py (linear_with_grad_accumulation_and_async_allreduce),
tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py, TransformerEngine's
triton/cross_entropy.py.
"""

from trainfit.estimator.demands import Product
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Tensor


def head(step: TransformerEngine) -> None:
    """Logits [n, V / t] from the final norm's output, which that norm keeps, and their loss."""
    sizes = step.sizes
    logits = step.tensor("logits", sizes.n, sizes.V // sizes.t)
    of_logits = logits if is_in_place(step, logits) else step.of_output(logits)
    of_x = step.tensor("input gradient", sizes.n, sizes.h)
    reduced = step.tensor("reduced input gradient", sizes.n_gathered and sizes.n_shard, sizes.h)
    weights = step.weight_gradient(sizes.V // sizes.t, sizes.h)
    step.operation(
        "output_layer",
        makes=(logits,),
        backward=highest(
            (of_logits, of_x), (of_logits, of_x, reduced), (of_logits, *weights, of_x, reduced)
        ),
        weight=(sizes.V // sizes.t, sizes.h),
        demands=(
            Product(
                *(sizes.n, sizes.h, sizes.V // sizes.t),
                gradients=1 if step.is_frozen else 2,
                narrow=False,
            ),
            *step.into_columns(sizes.h),
        ),
    )
    cross_entropy(step, logits)


def is_in_place(step: TransformerEngine, logits: Tensor) -> bool:
    """Whether the loss turns the logits into their gradient: te_fused does, and unfused where they
    are in fp32, so that there is no copy.
    """
    kind = step.run.step.cross_entropy
    return kind == "te_fused" or (kind == "unfused" and logits.width == FP32)


def cross_entropy(step: TransformerEngine, logits: Tensor) -> None:
    """The loss over vocabulary-parallel logits, element by element of [n, V / t].

    te_fused turns the logits into their gradient in place. unfused keeps an fp32 softmax, made in
    place of the fp32 copy of the logits, or of logits in fp32. native_fused compiles the
    exponential, which then does not run in place.
    """
    kind = step.run.step.cross_entropy
    if is_in_place(step, logits):
        kept = step.tensor("maximum, sum and loss", 3, step.sizes.n, width=FP32)
        step.operation("loss", saves=(logits, kept))
        return
    softmax = step.tensor("softmax", *logits.shape, width=FP32)
    exponential = step.tensor("exponential", *logits.shape, width=FP32)
    borrows = (logits, exponential) if kind == "native_fused" else (logits,)
    step.operation("loss", saves=(softmax,), borrows=borrows, backward=(step.of_output(logits),))
