"""Output layer and cross entropy as modules of PyTorch. Symbols: estimator.legend.

Sources: transformers' loss/loss_utils.py (ForCausalLMLoss), torch/distributed/tensor/parallel/
loss.py, torchtitan's components/loss.py, liger_kernel/ops/fused_linear_cross_entropy.py.
"""

from math import ceil

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.ledger import Operation, Tensor, backward, forward, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan

FULL = 4
"""Bytes of an element in fp32, in which the loss is computed."""


def operations(sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """lm_head and the loss over its logits."""
    match plan.step.cross_entropy:
        case "with_head":
            return (_with_head(sizes),)
        case "chunked":
            return (_chunked(sizes, plan.step.loss_chunks),)
        case "fused":
            return (_output_layer(sizes, plan), _fused(sizes))
        case _:
            return (_output_layer(sizes, plan), _cross_entropy(sizes, plan))


def _output_layer(sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """Logits [n, V / t]. A tied matrix leaves its gradient to the embedding, which adds its own."""
    product = linear("lm_head", sizes.n, sizes.h, sizes.V // sizes.t, sizes, reads="residual")
    capped = plan.model.traits.logits_softcap
    logits = sizes.n * sizes.V // sizes.t * sizes.bytes
    return product._replace(
        tensors=(*product.tensors, saved("capped logits [n, V / t]", logits if capped else 0))
    )


def _cross_entropy(sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """fp32 log-probabilities of the logits, kept, and in backward their gradient and that of the
    logits. Over logits that ranks share, the log-probabilities are made again beside both.
    """
    shared = plan.step.loss_parallel and sizes.t > 1
    logits = sizes.n * sizes.V // (sizes.t if shared else 1)
    narrow = sizes.bytes * logits
    table: tuple[Tensor, ...] = (
        saved("log-probabilities [n, V] fp32", FULL * logits),
        saved("labels [n]", 8 * sizes.n),
        forward("logits [n, V]", narrow),
        forward("logits in fp32 [n, V]", FULL * logits if sizes.bytes < FULL else 0),
        backward("gradient of the log-probabilities and of the logits", 2 * FULL * logits),
        backward("probabilities", FULL * logits if shared else 0),
    )
    return Operation("loss", table)


def _fused(sizes: PytorchLegend) -> Operation:
    """One kernel reads the logits as they are, keeps them and makes their gradient."""
    logits = sizes.bytes * sizes.n * sizes.V // sizes.t
    return Operation(
        "loss",
        (
            saved("logits [n, V / t]", logits),
            saved("logsumexp and labels [n]", (FULL + 8) * sizes.n),
            backward("gradient of the logits [n, V / t]", logits),
        ),
    )


def _chunked(sizes: PytorchLegend, chunks: int) -> Operation:
    """Head and loss of one part of the sequence after the other, each backward at once: gradients
    [n, h] of the hidden state, and the logits of one part.
    """
    n = ceil(sizes.n / chunks)
    head = linear("lm_head", n, sizes.h, sizes.V // sizes.t, sizes, reads="residual")
    logits = n * sizes.V // sizes.t
    return Operation(
        "loss",
        (
            *head.tensors,
            backward("logits of a chunk in fp32, log-probabilities, gradients", 3 * FULL * logits),
            backward("gradient of the hidden state [n, h]", sizes.act),
        ),
    )


def _with_head(sizes: PytorchLegend) -> Operation:
    """Liger's kernel: chunks of about h / V of the tokens, whose gradients it makes in forward."""
    rows = ceil(sizes.n / max(1, sizes.V // sizes.h))
    chunk = 1 << (rows - 1).bit_length()
    logits = min(chunk, sizes.n) * sizes.V // sizes.t
    matrix = sizes.V * sizes.h // sizes.t
    trained = sizes.trains("lm_head")
    weight = matrix * sizes.gradient_bytes if trained else 0
    head = linear("lm_head", 0, sizes.h, sizes.V // sizes.t, sizes, reads="shared")
    return Operation(
        "loss",
        (
            *head.tensors,
            saved("gradient of the hidden state [n, h]", sizes.act),
            saved("weight gradient [V / t, h], made in forward", weight),
            forward("logits of a chunk and their copy in fp32", (sizes.bytes + FULL) * logits),
        ),
    )
