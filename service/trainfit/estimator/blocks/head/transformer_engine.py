"""Final norm, output layer and cross entropy in Megatron. Symbols: estimator.legend.

Sources: tensor_parallel/layers.py (linear_with_grad_accumulation_and_async_allreduce),
tensor_parallel/cross_entropy.py, fusions/fused_cross_entropy.py, TransformerEngine's
triton/cross_entropy.py.
"""

from trainfit.estimator.ledger import Operation, Tensor, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import MegatronPlan


def output_layer(sizes: Legend, plan: MegatronPlan) -> Operation:
    """Logits [n, V / t] from the final norm's output, which that norm keeps."""
    n, width = sizes.n, sizes.bytes
    fused = plan.framework.gradient_accumulation_fusion
    weight_gradient = 0 if fused else sizes.V * sizes.h * width // sizes.t
    return Operation(
        "output_layer",
        (
            forward("logits [n, V / t]", width * n * sizes.V // sizes.t),
            backward("gradient of the logits [n, V / t]", width * n * sizes.V // sizes.t),
            backward("input gradient [n, h]", sizes.h * n * width),
            backward("reduced input gradient [n', h]", sizes.act if sizes.n_gathered else 0),
            backward("weight gradient [V / t, h]", weight_gradient),
        ),
    )


def cross_entropy(sizes: Legend, plan: MegatronPlan) -> Operation:
    """The loss over vocabulary-parallel logits, element by element of [n, V / t].

    te_fused turns the logits into their gradient in place. unfused keeps an fp32 softmax, made in
    place of the fp32 copy of the logits. native_fused compiles the exponential, which then does
    not run in place.
    """
    logits = sizes.n * sizes.V // sizes.t
    width = sizes.bytes
    table: tuple[Tensor, ...]
    match plan.step.cross_entropy:
        case "te_fused":
            table = (
                saved("logits, then their gradient [n, V / t]", width * logits),
                saved("maximum, sum and loss [n] fp32", 12 * sizes.n),
            )
        case "native_fused":
            table = (
                saved("softmax [n, V / t] fp32", 4 * logits),
                forward("logits [n, V / t]", width * logits),
                forward("exponential [n, V / t] fp32", 4 * logits),
                backward("gradient of the logits [n, V / t]", width * logits),
            )
        case _:
            table = (
                saved("softmax [n, V / t] fp32", 4 * logits),
                forward("logits [n, V / t]", width * logits),
                backward("gradient of the logits [n, V / t]", width * logits),
            )
    return Operation("loss", table)
