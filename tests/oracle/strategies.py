"""How a model is spread over ranks, of which rank 0 is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as fsdp
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.oracle.models import DTYPES, Model
from tests.oracle.spec import Spec
from tests.oracle.tracker import Tracker

FSDP_ROLES = {
    "foreach_all_gather": "fsdp_allgather_buf",
    "foreach_all_gather_copy_out": "fsdp_unsharded_param",
    "foreach_reduce": "fsdp_reduce_buf",
}


@contextmanager
def process_group(spec: Spec, real: bool) -> Iterator[dict[str, Any]]:
    """Meshes of a process group in which nothing is sent, by dimension: dp, tp, ep."""
    if spec.strategy == "single" and spec.pp == 1:
        yield {}
        return
    if real and spec.strategy == "ddp":
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    else:
        rank = spec.pp_rank * (spec.world // spec.pp)
        dist.init_process_group("fake", rank=rank, world_size=spec.world, store=FakeStore())
    try:
        yield meshes_of(spec)
    finally:
        dist.destroy_process_group()


def meshes_of(spec: Spec) -> dict[str, Any]:
    def mesh(**sizes: int) -> Any:
        return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))

    if spec.pp > 1:
        both = mesh(pp=spec.pp, dp=spec.world // spec.pp)
        return {name: both[name] for name in ("pp", "dp") if name == "pp" or spec.uses_fsdp}
    match spec.strategy:
        case "tp":
            return {"tp": mesh(tp=spec.tp)}
        case "autotp":
            return {"autotp": mesh(tp=spec.tp)}
        case "fsdp2_tp":
            both = mesh(dp=spec.world // spec.tp, tp=spec.tp)
            return {"dp": both["dp"], "tp": both["tp"]}
        case "hsdp":
            return {"dp": mesh(replicate=spec.replicate, shard=spec.world // spec.replicate)}
        case "fsdp2":
            return {"dp": mesh(dp=spec.world)}
        case "fsdp2_ep":
            dense = mesh(dp=spec.world // spec.tp, tp=spec.tp)
            return {
                "dp": dense["dp"],
                **({"tp": dense["tp"]} if spec.tp > 1 else {}),
                "ep": mesh(efsdp=spec.world // spec.ep, ep=spec.ep),
                "alike": mesh(rank=spec.world, alike=1)["alike"],
            }
    return {}


# FSDP2


def mixed_precision(spec: Spec) -> MixedPrecisionPolicy:
    """In which types FSDP gathers and reduces."""
    reduce_dtype = DTYPES.get(spec.reduce_dtype or "")
    if spec.dtype != "fsdp_mp":
        return MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
    return MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=reduce_dtype or torch.float32
    )


def apply_fsdp(
    model: Model, mesh: Any, spec: Spec, placements: Callable[[Any], Any] = lambda _block: None
) -> None:
    """Shard every block, and what is outside of blocks as the spec says. `placements` says how to
    shard the parameters of a block where not by their rows over the mesh.
    """
    shard = sharder(mesh, spec)
    if spec.fsdp_wrap == "torchtitan":
        last = [model.final_norm, model.head]
        if model.tied:
            shard([model.embedding, *last], False)
        else:
            shard(model.embedding, spec.reshard_after_forward)
            shard(last, False)
    for block in model.blocks:
        shard(block, spec.reshard_after_forward, placements(block))
    # None is PyTorch's default: the root stays unsharded after forward.
    shard(model.module, None if spec.reshard_after_forward else False)


def sharder(mesh: Any, spec: Spec) -> Callable[..., None]:
    """What shards modules as one group, whether they are resharded after forward or not."""
    policy = mixed_precision(spec)

    def shard(modules: Any, reshard_after_forward: bool | None, placement: Any = None) -> None:
        fully_shard(
            modules,
            mesh=mesh,
            mp_policy=policy,
            reshard_after_forward=reshard_after_forward,
            shard_placement_fn=placement,
        )

    return shard


@contextmanager
def fsdp_roles(tracker: Tracker) -> Iterator[None]:
    """Within, the tracker knows what FSDP allocates a storage for."""

    def playing(plain: Callable[..., Any], role: str) -> Callable[..., Any]:
        def named(*args: Any, **kwargs: Any) -> Any:
            with tracker.role(role):
                return plain(*args, **kwargs)

        return named

    plain_post_backward = fsdp.FSDPParamGroup.post_backward

    def post_backward(group: Any, *unused: Any) -> Any:
        for each in group.fsdp_params:
            gradient = getattr(getattr(each, "_unsharded_param", None), "grad", None)
            if gradient is not None:
                tracker.rename(gradient, "fsdp_unsharded_grad")
        result = plain_post_backward(group, *unused)
        for each in group.fsdp_params:
            if each.unsharded_accumulated_grad is not None:
                tracker.rename(each.unsharded_accumulated_grad_data, "fsdp_unsharded_grad")
        return result

    with ExitStack() as within:
        for name, role in FSDP_ROLES.items():
            within.enter_context(patch.object(fsdp, name, playing(getattr(fsdp, name), role)))
        within.enter_context(patch.object(fsdp.FSDPParamGroup, "post_backward", post_backward))
        yield


# DDP


class Buckets:
    """What DistributedDataParallel adds; its C++ reducer cannot hold fakes.

    Buckets have the size of all gradients and live as long as the model. A gradient is copied
    into them; as a view of its bucket it is then dropped itself.
    """

    def __init__(self, parameters: Sequence[Any], as_views: bool, tracker: Tracker) -> None:
        self.reducing = True
        self._buckets = {id(each): torch.empty_like(each) for each in parameters}
        for parameter in parameters:
            tracker.name(self._buckets[id(parameter)], "ddp_buckets")
            if as_views:
                parameter.register_post_accumulate_grad_hook(self._into_bucket)

    def _into_bucket(self, parameter: Any) -> None:
        if self.reducing:
            parameter.grad = self._buckets[id(parameter)].detach()


# What a step needs to know


class Spread:
    """A model over ranks: how to call it, and when it reduces gradients."""

    def __init__(self, model: Model, spec: Spec, tracker: Tracker, real: bool) -> None:
        self.run = model.module
        self._spec = spec
        self._buckets: Buckets | None = None
        if spec.strategy == "ddp" and real:
            self.run = DistributedDataParallel(
                model.module, gradient_as_bucket_view=spec.gradient_as_bucket_view
            )
        elif spec.strategy == "ddp":
            trained = [each for each in model.parameters() if each.requires_grad]
            self._buckets = Buckets(trained, spec.gradient_as_bucket_view, tracker)

    def micro_batch(self, reduces: bool) -> Any:
        """Context of a micro-batch's forward and backward."""
        if self._spec.uses_fsdp:
            self.run.set_requires_gradient_sync(reduces)
        elif self._buckets is not None:
            self._buckets.reducing = reduces
        elif self._spec.strategy == "ddp" and not reduces:
            return self.run.no_sync()
        return nullcontext()

    def loss_context(self) -> Any:
        """Context of a forward and its backward."""
        if self._spec.uses_tp and self._spec.loss_parallel:
            return loss_parallel()
        return nullcontext()
