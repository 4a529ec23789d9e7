"""Losses as verl's own actor computes them: its code is run as it is, without what surrounds it.

verl is in no lock: rows that need it are made where its source and what it imports (tensordict and
omegaconf) are beside the oracle's own environment, and `make oracle` leaves them out. Masks decide
shapes: packed samples need `--real`. flash-attn and Ray have stand-ins, as has what runs under
autocast on a GPU only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch.nn import functional

from tests.oracle.spec import Spec

ABSENT = (
    "ray",
    "ray.actor",
    "ray.experimental",
    "ray.experimental.state",
    "ray.experimental.state.api",
    "ray.util",
    "ray.util.placement_group",
    "ray.util.scheduling_strategies",
    "pkg_resources",
    "flash_attn",
    "flash_attn.ops",
    "flash_attn.ops.triton",
)
"""Modules that verl imports, and of which a loss calls nothing."""


def loss_of_actor(run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """The loss of GRPO over the last tokens of samples, none of which is padding."""
    with stand_ins():
        actor = actor_of(run, spec)
        kept = spec.logits_to_keep
        batch = {
            "input_ids": ids,
            "responses": ids[:, -kept:],
            "attention_mask": torch.ones_like(ids),
        }
        batch["position_ids"] = torch.arange(spec.seq).expand_as(ids)
        looks = spec.entropy != "none"
        forward = actor._forward_micro_batch
        entropy, log_probs = forward(batch, temperature=1.0, calculate_entropy=looks)
        mask, advantages = torch.ones_like(log_probs), torch.zeros_like(log_probs)
        ratio = torch.exp(log_probs - log_probs.detach())
        loss = -(advantages * ratio * mask).sum() / mask.sum()
        if looks:
            loss = loss - 0.001 * (entropy * mask).sum() / mask.sum()
    return loss, None


def actor_of(run: Any, spec: Spec) -> Any:
    """An actor that nobody has set up."""
    module = import_module("verl.workers.actor.dp_actor")
    actor: Any = object.__new__(module.DataParallelPPOActor)
    functions = sys.modules["verl.utils.torch_functional"]
    chunks = spec.entropy == "chunks"
    by: Any = (
        functions.entropy_from_logits_with_chunking if chunks else functions.entropy_from_logits
    )
    settings = {"entropy_checkpointing": spec.entropy == "remade"}
    if spec.fused:
        common = import_module("verl.models.transformers.dense_common")
        run.forward = MethodType(common.forward_with_torch_backend, run)
    actor.__dict__.update(
        actor_module=run,
        config=SimpleNamespace(**settings, get=settings.get),
        use_remove_padding=not spec.pads,
        use_fused_kernels=spec.fused,
        ulysses_sequence_parallel_size=1,
        use_ulysses_sp=False,
        compute_entropy_from_logits=CompiledEntropy.apply if spec.entropy == "compiled" else by,
        device_name="cpu",
        param_dtype=torch.bfloat16,
    )
    return actor


@contextmanager
def stand_ins() -> Iterator[None]:
    """Within, verl can be imported, and what it calls makes what it makes on a GPU."""
    import transformers

    padding, kernel = ModuleType("flash_attn.bert_padding"), ModuleType("cross_entropy")
    for each in (unpad_input, pad_input, index_first_axis, rearrange):
        setattr(padding, each.__name__, each)
    kernel.cross_entropy_loss = cross_entropy_loss  # type: ignore[attr-defined]
    modules: dict[str, Any] = {name: MagicMock() for name in ABSENT if name not in sys.modules}
    modules["flash_attn.bert_padding"] = padding
    modules["flash_attn.ops.triton.cross_entropy"] = kernel
    with ExitStack() as within:
        within.enter_context(patch.dict(sys.modules, modules))
        name = "AutoModelForVision2Seq"
        within.enter_context(patch.object(transformers, name, None, create=True))
        import_module("verl.utils.torch_functional").torch = Widening(torch)  # type: ignore[attr-defined]
        yield


class Widening:
    """torch as verl's entropies see it under autocast on a GPU, forward and when they run again."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.logsumexp, self.sum = widening(plain.logsumexp), widening(plain.sum)
        self.nn = SimpleNamespace(
            functional=SimpleNamespace(softmax=widening(functional.softmax)), Module=plain.nn.Module
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def widening(plain: Callable[..., Any]) -> Callable[..., Any]:
    """As autocast on a GPU has a function read fp32, which on a CPU it lets read what it is given
    (ATen/autocast_mode.h).
    """

    def widened(given: Any, *others: Any, **named: Any) -> Any:
        return plain(given.float(), *others, **named)

    return widened


class CompiledEntropy(torch.autograd.Function):
    """`entropy_from_logits` as Inductor compiles it: one kernel reads the logits, which are kept
    with three values a token, and one makes their gradient.
    """

    @staticmethod
    def forward(ctx: Any, logits: Any) -> Any:
        values = [logits.new_zeros(len(logits), dtype=torch.float32) for _ in range(4)]
        ctx.save_for_backward(logits, *values[:3])
        return values[3]

    @staticmethod
    def backward(ctx: Any, *_upstream: Any) -> Any:
        return torch.empty_like(ctx.saved_tensors[0])


class CrossEntropy(torch.autograd.Function):
    """flash-attn's (ops/triton/cross_entropy.py), whose gradient may lie where the logits are."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any, inplace_backward: bool) -> Any:
        losses, lse = (logits.new_zeros(len(logits), dtype=torch.float32) for _ in range(2))
        ctx.save_for_backward(logits, lse, labels)
        ctx.in_place = inplace_backward
        return losses

    @staticmethod
    def backward(ctx: Any, *_upstream: Any) -> Any:
        logits = ctx.saved_tensors[0]
        return (logits if ctx.in_place else torch.empty_like(logits)), None, None


def cross_entropy_loss(logits: Any, labels: Any, inplace_backward: bool = False) -> Any:
    losses = CrossEntropy.apply(logits, labels, inplace_backward)
    return losses, torch.zeros_like(losses)


def unpad_input(hidden: Any, mask: Any) -> Any:
    """Rows of tokens that are no padding, their places, and where each sample ends."""
    indices = mask.flatten().nonzero().flatten()
    ends = functional.pad(mask.sum(dim=-1).cumsum(0), (1, 0))
    return index_first_axis(hidden.flatten(0, 1), indices), indices, ends, mask.shape[1]


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    whole = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return whole.index_put((indices,), hidden_states).unflatten(0, (batch, seqlen))


def index_first_axis(rows: Any, indices: Any) -> Any:
    return rows[indices]


def rearrange(rows: Any, _pattern: str) -> Any:
    """Of the patterns that verl gives, that of [b, s, ...]."""
    return rows.flatten(0, 1)
