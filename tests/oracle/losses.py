"""From token ids to a loss to call `backward` on."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.utils.checkpoint import checkpoint

from tests.oracle.actors import loss_of_actor, loss_of_openrlhf
from tests.oracle.models import Model
from tests.oracle.spec import Spec
from tests.oracle.trainers import loss_of_policy, loss_of_preferences, loss_of_trainer

IGNORED = -100
"""The label of a token without a loss."""


def loss_of(model: Model, run: Any, spec: Spec, ids: Any, labels: Any, **inputs: Any) -> Any:
    """(loss, what the caller may keep) of a forward. `run` is the model as strategies wrap it."""
    if spec.loss == "reward":
        return loss_of_trainer(run, ids, spec)
    if spec.loss == "preference":
        return loss_of_preferences(model, run, ids, spec)
    if spec.openrlhf:
        return loss_of_openrlhf(run, ids, spec)
    if spec.verl:
        return loss_of_actor(run, ids, spec)
    if spec.loss == "policy":
        return loss_of_policy(run, ids, spec)
    if spec.loss == "hf" and not spec.logits_to_keep:
        output = run(input_ids=ids, labels=labels, **inputs)
        return output.loss, output
    if spec.loss == "hf":
        kept = spec.logits_to_keep
        logits = run(input_ids=ids, logits_to_keep=kept, **inputs).logits
        vocabulary = model.config.get_text_config().vocab_size
        loss = model.module.loss_function(logits, labels[:, -kept:], vocab_size=vocabulary)
        return loss, logits
    head = model.head
    owner, name = place_of(head, model)
    if spec.loss == "chunked_nll":
        loss = partial(chunked_nll, head=head, chunks=spec.loss_chunks)
        with (
            patch.object(owner, name, nn.Identity()),
            patch.object(owner, "_loss_function", loss, create=True),
        ):
            return run(input_ids=ids, labels=labels, **inputs).loss, None
    with patch.object(owner, name, nn.Identity()):
        hidden = run(input_ids=ids, **inputs).logits
    if spec.loss == "chunked":
        return chunked(hidden, head, labels, spec.loss_chunks), None
    return FusedLinearCrossEntropy.apply(hidden.flatten(0, 1), head.weight, labels.flatten()), None


def place_of(head: Any, model: Model) -> tuple[Any, str]:
    """The module that calls the head, and the head's name in it."""
    for owner in model.module.modules():
        for name, child in owner.named_children():
            if child is head:
                return owner, name
    raise LookupError("no module calls the head")


def chunked(hidden: Any, head: Any, labels: Any, chunks: int) -> Any:
    """torchtitan's ChunkedLossWrapper: head, loss and backward for one chunk of tokens at a time.

    The gradients of the chunks gather in an fp32 buffer; the rest of backward starts from it.
    """
    tokens = hidden.flatten(0, 1)
    parts = [each.detach().requires_grad_() for each in tokens.chunk(chunks)]
    gathered = torch.zeros_like(tokens, dtype=torch.float32)
    total = tokens.new_zeros((), dtype=torch.float32)
    sharded = head if isinstance(head, FSDPModule) else None
    if sharded is not None:
        sharded.set_reshard_after_forward(False)
        sharded.set_reshard_after_backward(False)
        sharded.set_requires_gradient_sync(False, recurse=False)
        sharded.unshard()
    start = 0
    for number, (part, target) in enumerate(
        zip(parts, labels.flatten().chunk(chunks), strict=True)
    ):
        if sharded is not None and number == chunks - 1:
            sharded.set_requires_gradient_sync(True, recurse=False)
        logits = head(part)
        loss = (
            nn.functional.cross_entropy(logits.float(), target, reduction="sum") / tokens.shape[0]
        )
        total = total + loss.detach()
        loss.backward()
        gathered[start : start + len(part)] = part.grad
        part.grad = None
        start += len(part)
    if sharded is not None:
        sharded.set_reshard_after_forward(True)
        sharded.set_reshard_after_backward(True)
        sharded.reshard()
    return GradientFrom.apply(tokens, gathered.to(tokens.dtype), total)


def chunked_nll(logits: Any, labels: Any, head: Any, chunks: int, **_options: Any) -> Any:
    """TRL's loss: for one chunk of tokens at a time head and loss in fp32, made again in backward.
    Tokens that have a loss come first. In the place of logits a model without a head hands over
    what the head would read.
    """
    tokens, targets, weight = logits.flatten(0, 1), labels.flatten(), head.weight
    order = (targets != IGNORED).to(torch.int8).argsort(descending=True, stable=True)
    tokens, targets = tokens[order], targets[order]
    size = -(-len(targets) // chunks)
    total = tokens.new_zeros((), dtype=torch.float32)
    for start in range(0, len(targets), size):
        part, target = tokens[start : start + size], targets[start : start + size]
        total = total + checkpoint(loss_and_entropy, part, weight, target, use_reentrant=False)[0]
    return total / len(targets)


def loss_and_entropy(hidden: Any, weight: Any, targets: Any) -> tuple[Any, Any]:
    """Of a chunk, summed up; only the loss is followed back."""
    logits = hidden.float() @ weight.float().t()
    log_p = nn.functional.log_softmax(logits, dim=-1)
    loss = nn.functional.nll_loss(log_p, targets, ignore_index=IGNORED, reduction="sum")
    return loss, (-(log_p.exp() * log_p).sum(dim=-1) * (targets != IGNORED)).sum()


class GradientFrom(torch.autograd.Function):
    """A loss whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, hidden: Any, gradient: Any, loss: Any) -> Any:  # noqa: ARG004
        ctx.save_for_backward(gradient)
        return loss.detach()

    @staticmethod
    def backward(ctx: Any, *_upstream: Any) -> Any:
        return ctx.saved_tensors[0], None, None


class FusedLinearCrossEntropy(torch.autograd.Function):
    """Liger's head and loss in one: gradients are made in forward, chunk by chunk.

    Its Triton kernel turns a chunk's logits into their gradients in place and allocates nothing;
    an operation in place stands in for it. All else is what `fused_linear_cross_entropy.py` does.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, labels: Any) -> Any:
        tokens, width = hidden.shape
        size = power_of_two(-(-tokens // -(-len(weight) // width)))
        hidden_grad = torch.zeros_like(hidden)
        weight_grad = torch.zeros_like(weight) if weight.requires_grad else None
        losses = torch.zeros(tokens, dtype=torch.float32)
        counted = labels != IGNORED
        for start in range(0, tokens, size):
            part = hidden[start : start + size]
            logits = part @ weight.t()
            logits.mul_(1 / tokens)
            hidden_grad[start : start + size] = logits @ weight
            if weight_grad is not None:
                weight_grad += torch.mm(logits.t(), part).float()
        ctx.save_for_backward(hidden_grad.detach(), weight_grad)
        return losses.sum() / counted.sum()

    @staticmethod
    def backward(ctx: Any, *_upstream: Any) -> Any:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad, weight_grad, None


def power_of_two(number: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << (number - 1).bit_length()
