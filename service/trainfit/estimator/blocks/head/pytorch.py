"""Output layer and cross entropy as modules of PyTorch. Symbols: estimator.legend.

Sources: transformers' loss/loss_utils.py (ForCausalLMLoss, at 4.46 and 4.49),
torch/distributed/tensor/parallel/loss.py, torchtitan's components/loss.py,
liger_kernel/ops/fused_linear_cross_entropy.py, TRL's trainer/sft_trainer.py
(_chunked_cross_entropy_loss).
"""

from math import ceil

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.ledger import Kind, Operation, backward, forward, gradient, saved
from trainfit.estimator.legend import PytorchLegend
from trainfit.resolve.plan import PytorchPlan

FP32 = 4
"""Bytes of an element in fp32, in which the loss is computed."""
LABEL_BYTES = 8
"""Labels are int64."""


def operations(sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """lm_head and the loss over its logits."""
    kept = plan.step.logits_kept
    n = kept * sizes.b // plan.layout.cp if kept else sizes.n
    match plan.step.cross_entropy:
        case "with_head":
            return (_with_head(n, sizes),)
        case "chunked":
            return (_chunked(n, sizes, plan),)
        case "checkpointed":
            return (_checkpointed(n, sizes, plan),)
        case "fused":
            return (_output_layer(n, sizes, plan), _fused(n, sizes, plan))
        case _:
            return (_output_layer(n, sizes, plan), _cross_entropy(n, sizes, plan))


def keeps_input(sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether the head keeps what it reads as it is. One that makes its gradients in forward keeps
    nothing, one in checkpointed chunks a copy.
    """
    in_chunks = plan.step.cross_entropy in ("chunked", "checkpointed", "with_head")
    return sizes.keeps_input("lm_head") and not sizes.narrows and not in_chunks


def _output_layer(n: int, sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """Logits [n, V / t]. A tied matrix leaves its gradient to the embedding, which adds its own.
    Where only the last tokens have logits, the gradient of the others is filled with zeros.
    DeepSpeed divides a matrix that is not tied, and gathers its logits.
    """
    kept = keeps_input(sizes, plan) and not sizes.gathers
    tied = plan.model.output_layer.tied
    ranks = 1 if tied and not plan.layout.divides_embedding else sizes.t
    product = linear("lm_head", n, sizes.h, sizes.V // ranks, sizes, reads="residual")
    logits = n * sizes.V // ranks * sizes.bytes
    gathered = n * sizes.V * sizes.bytes if ranks > 1 and not plan.layout.divides_embedding else 0
    return product._replace(
        tensors=(
            *product.tensors,
            saved("norm output [n', h]", sizes.act if kept else 0),
            saved("capped logits [n, V / t]", logits if plan.model.traits.logits_softcap else 0),
            forward("logits of all ranks, as gathered and in order [n, V]", 2 * gathered),
            backward("gradient of all tokens [n, h]", sizes.act if n < sizes.n else 0),
        )
    )


def _cross_entropy(n: int, sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """fp32 log-probabilities of the logits, kept, and in backward their gradient and that of the
    logits. Over logits that ranks share, the log-probabilities are made again beside both.

    Where logits are shifted, a copy of them in fp32 is read. A model that widens its own logits for
    this lets go of the narrow ones (transformers 4.45's modeling_llama.py).
    """
    shared = plan.step.loss_parallel and sizes.t > 1
    logits = n * sizes.V // (sizes.t if shared else 1)
    shifted = plan.step.shifted
    widened = sizes.bytes < FP32 and shifted != "fp32_logits"
    return Operation(
        "loss",
        (
            saved("log-probabilities [n, V] fp32", FP32 * logits),
            saved("labels [n]", LABEL_BYTES * n),
            forward("logits [n, V]", (FP32 if shifted == "fp32_logits" else sizes.bytes) * logits),
            forward("logits in fp32 [n, V]", FP32 * logits if widened else 0),
            forward("shifted logits in fp32 [n, V]", FP32 * logits if shifted != "labels" else 0),
            backward("gradients of the log-probabilities and of the logits", 2 * FP32 * logits),
            backward("probabilities", FP32 * logits if shared else 0),
        ),
        kind=Kind.LOSS,
    )


def _fused(n: int, sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """One kernel reads the logits as they are, keeps them unless a pipeline does, and makes their
    gradient.
    """
    logits = sizes.bytes * n * sizes.V // sizes.t
    return Operation(
        "loss",
        (
            saved("logits [n, V / t]", logits if plan.layout.pp == 1 else 0),
            saved("logsumexp and labels [n]", (FP32 + LABEL_BYTES) * n),
            backward("gradient of the logits [n, V / t]", logits),
        ),
        kind=Kind.LOSS,
    )


def _chunked(n: int, sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """Head and loss of one part of the sequence after the other in forward, each with its backward
    at once. The gradient of the hidden state adds up in fp32 and waits in the narrow type, that of
    the head adds up whole: under FSDP in the type in which it is reduced, at the end.
    """
    chunk = ceil(n / plan.step.loss_chunks)
    logits = chunk * sizes.V // sizes.t
    matrix = sizes.V * sizes.h // sizes.t if sizes.trains("lm_head") else 0
    new, whole, reducing = matrix * sizes.gradient_bytes, matrix * sizes.gradient_bytes, 0
    if plan.layout.sharding == "optim_grads_params":
        whole = reducing = matrix * plan.step.states.reduced
    apart = whole if reducing else 0
    at_loss = (sizes.bytes + 3 * FP32) * logits + apart
    left = plan.step.states.gradients * matrix // plan.layout.optimizer_shards if apart else 0
    at_reduction = sizes.bytes * logits + new + apart + reducing + left
    return Operation(
        "loss",
        (
            forward("input of the head [n, h]", sizes.act),
            saved("gradient of the hidden state [n, h]", sizes.act),
            saved("weight gradient [V / t, h], made in forward", whole - apart),
            gradient("the same from then on", whole - apart),
            forward("gradient of the hidden state in fp32", FP32 * sizes.h * n - sizes.act),
            forward("logits of a chunk, or the head's gradients", max(at_loss, at_reduction)),
        ),
        kind=Kind.LOSS,
    )


def _checkpointed(n: int, sizes: PytorchLegend, plan: PytorchPlan) -> Operation:
    """TRL's chunks: head, loss and entropy in fp32 of one part of the tokens after the other, made
    again in backward. Each copies the whole head to fp32, and to the narrow type under autocast.
    """
    stored = sizes.residual_bytes if sizes.autocast else sizes.bytes
    read = sizes.bytes if sizes.autocast else FP32
    numel, chunk = sizes.V * sizes.h, ceil(n / plan.step.loss_chunks)
    widened = FP32 * numel if stored < FP32 else 0
    copies = widened + (read * numel if sizes.autocast else 0)
    kept = read * numel if copies else 0
    product, logits = read * chunk * sizes.V, FP32 * chunk * sizes.V
    at_product, at_entropy = copies + product, product + 3 * logits
    highest = max(at_product, kept + at_entropy)
    trained = sizes.trains("lm_head")
    if trained:
        kept += read * chunk * sizes.h
        types = {FP32, read, stored}
        highest = max(kept + at_entropy, kept + product + read * numel, sum(types) * numel)
    return Operation(
        "loss",
        (
            forward("input of the head [n, h]", sizes.act),
            saved("copy of it, tokens with a loss first [n, h]", sizes.act),
            forward("head in fp32, logits of a chunk", max(at_product, at_entropy)),
            backward("gradient of the hidden state [n, h]", sizes.act),
            backward("head in fp32, logits of a chunk, gradients of both", highest),
            gradient("weight gradient [V, h]", numel * sizes.gradient_bytes * trained),
        ),
        kind=Kind.LOSS,
    )


def _with_head(n: int, sizes: PytorchLegend) -> Operation:
    """Liger's kernel makes the gradients in forward, over chunks of about h / V of the tokens. A
    chunk's weight gradient is copied to fp32 before it is added. Autocast keeps a narrow copy of
    the head meanwhile.
    """
    chunk = 1 << (ceil(n / ceil(sizes.V / sizes.h)) - 1).bit_length()
    logits = min(chunk, n) * sizes.V // sizes.t
    whole = sizes.V * sizes.h // sizes.t
    matrix = whole if sizes.trains("lm_head") else 0
    narrowed = whole * sizes.bytes if sizes.narrows else 0
    return Operation(
        "loss",
        (
            saved("gradient of the hidden state [n, h]", sizes.h * n * sizes.bytes),
            saved("weight gradient [V / t, h], made in forward", matrix * sizes.gradient_bytes),
            gradient("the same from then on", matrix * sizes.gradient_bytes),
            forward("input of the head [n, h]", sizes.act),
            forward("logits of a chunk", sizes.bytes * logits),
            forward("weight gradient of a chunk", matrix * (sizes.bytes + FP32)),
            forward("head in the narrow type", narrowed),
        ),
        kind=Kind.LOSS,
    )
