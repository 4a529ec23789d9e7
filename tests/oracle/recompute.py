"""Activation checkpointing and offload: what is kept of the forward."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any

import torch
from torch._functorch.partitioners import get_default_op_list
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from tests.oracle.models import Model
from tests.oracle.spec import Spec

aten = torch.ops.aten
collectives = torch.ops._c10d_functional

MM = frozenset((aten.mm.default, aten.linear.default))
ATTENTION_AND_MM = frozenset(
    (
        aten.mm.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_flash_attention.default,
        collectives.reduce_scatter_tensor.default,
    )
)
TORCHTITAN = frozenset(
    (
        *(operation.default for operation in get_default_op_list().compute_intensive_ops),
        aten._scaled_dot_product_cudnn_attention.default,
        aten._scaled_dot_product_attention_math.default,
        aten._scaled_dot_product_fused_attention_overrideable.default,
        aten.max.default,
        torch._higher_order_ops.flex_attention,
        aten.linear.default,
        aten.topk.default,
        collectives.reduce_scatter_tensor.default,
        collectives.all_to_all_single.default,
    )
)
"""What torchtitan's SelectiveAC saves (torchtitan/distributed/activation_checkpoint.py)."""
ROUTER_GATE = "router.gate"
"""The linear of torchtitan's router, whose product it never saves."""


def apply_recompute(model: Model, spec: Spec) -> None:
    """Wrap the blocks that a spec recomputes."""
    if spec.ac == "none":
        return
    alone = spec.strategy in ("single", "ddp") or spec.dispatch == "transformers"
    if spec.ac == "full" and alone and spec.ac_frozen:
        model.module.activation_checkpointing_enable(
            activation_checkpointing_kwargs={"use_reentrant": False}
        )
        return
    blocks = model.blocks
    for number in range(len(blocks)):
        trained = any(each.requires_grad for each in blocks[number].parameters())
        chosen = spec.ac != "selective_layer" or (number + 1) % spec.ac_every == 0
        if chosen and (trained or spec.ac_frozen):
            block = blocks[number]
            blocks[number] = checkpoint_wrapper(block, **options_of(spec, block))


def options_of(spec: Spec, block: Any) -> dict[str, Any]:
    """How a block is checkpointed."""
    if spec.ac == "full":
        return {"preserve_rng_state": False}
    if spec.ac == "selective":
        return {"preserve_rng_state": False, "context_fn": saving(ATTENTION_AND_MM)}
    as_torchtitan = {"early_stop": False}
    if spec.ac == "selective_op":
        made_again = {
            tuple(reversed(module.weight.shape))
            for path, module in block.named_modules()
            if path.endswith(ROUTER_GATE)
        }
        return as_torchtitan | {"context_fn": saving(TORCHTITAN, made_again)}
    return as_torchtitan


def saving(
    operations: frozenset[Any], made_again: Collection[tuple[int, int]] = ()
) -> Callable[[], Any]:
    """Contexts in which these operations are saved, but every second mm is not, nor is any with a
    matrix of a shape that is always `made_again`.
    """

    def contexts() -> Any:
        counts = {True: 0, False: 0}

        def policy(context: Any, operation: Any, *args: Any, **_kwargs: Any) -> CheckpointPolicy:
            if operation in MM:
                if tuple(args[1].shape) in made_again:
                    return CheckpointPolicy.PREFER_RECOMPUTE
                counts[context.is_recompute] += 1
                if counts[context.is_recompute] % 2 == 0:
                    return CheckpointPolicy.PREFER_RECOMPUTE
            if operation in operations:
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts


def offloading(spec: Spec) -> Any:
    """Context of a forward that keeps what it saves in host memory, as `save_on_cpu` does.

    A host copy is not on the device, so all that is kept of a tensor is what makes another one.
    """
    if not spec.offload:
        return nullcontext()

    def to_host(tensor: Any) -> Any:
        return tensor.size(), tensor.stride(), tensor.dtype

    def to_device(kept: Any) -> Any:
        size, stride, dtype = kept
        return torch.empty_strided(size, stride, dtype=dtype)

    return torch.autograd.graph.saved_tensors_hooks(to_host, to_device)
