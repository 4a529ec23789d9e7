"""Losses as verl's own actor and OpenRLHF's compute them: their code is run as it is, without what
surrounds it.

Neither is in a lock: rows that need one are made where its source and what it imports (of verl
tensordict and omegaconf) are beside the oracle's own environment, and `make oracle` leaves them
out. Masks decide shapes: packed samples need `--real`. flash-attn, DeepSpeed and Ray have
stand-ins, as has what is compiled, or runs under autocast on a GPU only.
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
    "flash_attn.utils",
    "flash_attn.utils.distributed",
    "deepspeed",
    "pylatexenc",
)
"""Modules that they import, and of which a loss calls nothing."""


def loss_of_actor(run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """The loss of GRPO over the last tokens of samples, none of which is padding."""
    with stand_ins():
        import_module("verl.utils.torch_functional").torch = Widening(torch)  # type: ignore[attr-defined]
        actor = actor_of(run, spec)
        kept = spec.logits_to_keep
        batch = {
            "input_ids": ids,
            "responses": ids[:, -kept:],
            "attention_mask": torch.ones_like(ids),
        }
        batch["position_ids"] = torch.arange(spec.seq).expand_as(ids)
        looks = spec.entropy != "none"
        entropy, log_probs = actor._forward_micro_batch(
            batch, temperature=1.0, calculate_entropy=looks
        )
    return loss_over(log_probs, entropy if looks else None), None


def loss_over(log_probs: Any, entropy: Any | None) -> Any:
    mask, advantages = torch.ones_like(log_probs), torch.zeros_like(log_probs)
    ratio = torch.exp(log_probs - log_probs.detach())
    loss = -(advantages * ratio * mask).sum() / mask.sum()
    return loss if entropy is None else loss - 0.001 * (entropy * mask).sum() / mask.sum()


def loss_of_openrlhf(run: Any, ids: Any, spec: Spec) -> tuple[Any, Any]:
    """The same by OpenRLHF's actor, and what the model has answered, which its loop holds."""
    kept = spec.logits_to_keep
    mask = torch.ones_like(ids)
    with stand_ins():
        module = import_module("openrlhf.models.actor")
        actor: Any = object.__new__(module.Actor)
        settings = {"packing_samples": not spec.pads, "temperature": spec.temperature}
        actor.__dict__.update(model=run, **settings)
        with patch.object(module, "compute_entropy", CompiledEntropy.apply):
            log_probs, output = module.Actor.forward(
                *(actor, ids, mask[:, -kept:]),
                attention_mask=mask,
                return_output=True,
                return_entropy=spec.entropy != "none",
            )
    entropy = output.entropy[:, -kept:] if spec.entropy != "none" else None
    return loss_over(log_probs, entropy), output


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
    """Within, actors can be imported, and what they call makes what it makes on a GPU."""
    import transformers

    padding, kernel = ModuleType("flash_attn.bert_padding"), ModuleType("cross_entropy")
    for each in (unpad_input, pad_input, index_first_axis, rearrange):
        setattr(padding, each.__name__, each)
    kernel.cross_entropy_loss = cross_entropy_loss  # type: ignore[attr-defined]
    modules: dict[str, Any] = {name: MagicMock() for name in ABSENT if name not in sys.modules}
    modules["flash_attn.bert_padding"] = padding
    modules["flash_attn.ops.triton.cross_entropy"] = kernel
    with ExitStack() as within:
        for name, module in modules.items():
            sys.modules[name] = module
            within.callback(sys.modules.pop, name, None)
        name = "AutoModelForVision2Seq"
        within.enter_context(patch.object(transformers, name, None, create=True))
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
        values = [logits.new_zeros(logits.shape[:-1], dtype=torch.float32) for _ in range(4)]
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
    """Rows of tokens that are no padding, their places, where each sample ends, and lengths."""
    indices = mask.flatten().nonzero().flatten()
    ends = functional.pad(mask.sum(dim=-1).cumsum(0), (1, 0))
    return (
        index_first_axis(hidden.flatten(0, 1), indices),
        indices,
        ends,
        mask.shape[1],
        mask.sum(dim=-1),
    )


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    whole = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return whole.index_put((indices,), hidden_states).unflatten(0, (batch, seqlen))


def index_first_axis(rows: Any, indices: Any) -> Any:
    return rows[indices]


def rearrange(rows: Any, _pattern: str) -> Any:
    """Of the patterns that verl gives, that of [b, s, ...]."""
    return rows.flatten(0, 1)
