"""Experts that are divided over ranks, as torchtitan and as transformers divide them.

Dense parameters are sharded by FSDP2 over all ranks; experts are divided over `ep` of them, and
sharded over the ranks that have the same ones. Every expert gets the same number of rows: the
values that decide it do not exist in fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import all_to_all_single, wait_tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, ShardPlacementResult
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import PrepareModuleInput, parallelize_module
from torch.nn import functional
from transformers.distributed.expert_parallel import apply_expert_parallelism

from tests.oracle.models import Model
from tests.oracle.spec import Spec
from tests.oracle.strategies import apply_fsdp, mixed_precision

Meshes = dict[str, Any]


# torchtitan's mixture of experts (models/common/moe.py, models/common/token_dispatcher.py)


class GroupedExperts(nn.Module):
    """Three stacks of matrices, each multiplied in one grouped product."""

    def __init__(self, experts: int, hidden: int, ffn: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(experts, ffn, hidden, dtype=dtype))
        self.w2 = nn.Parameter(torch.empty(experts, hidden, ffn, dtype=dtype))
        self.w3 = nn.Parameter(torch.empty(experts, ffn, hidden, dtype=dtype))

    def forward(self, rows: Any, counts: Any) -> Any:
        """[R, h] from [R, h], `counts` rows for each local expert."""
        w1, w2, w3 = (_local(each).bfloat16() for each in (self.w1, self.w2, self.w3))
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)

        def product(inputs: Any, weight: Any) -> Any:
            return torch._grouped_mm(inputs, weight.transpose(-2, -1), offs=ends)

        inner = functional.silu(product(rows.bfloat16(), w1))
        inner = inner * product(rows.bfloat16(), w3)
        return product(inner, w2).type_as(rows)


class RoutedExperts(nn.Module):
    """Rows to the ranks of their experts and back, weighted and added up for each token."""

    def __init__(self, experts: GroupedExperts, top_k: int) -> None:
        super().__init__()
        self.inner_experts = experts
        self.top_k = top_k
        self.mesh: Any = None
        self.experts = experts.w1.shape[0]

    def forward(self, tokens: Any, scores: Any, chosen: Any, counts: Any) -> Any:
        rows, local_counts, order, kept_scores, permuted = self.dispatch(
            tokens, scores, chosen, counts
        )
        output = self.inner_experts(rows, local_counts)
        return self.combine(output, order, kept_scores, permuted, tokens)

    def dispatch(self, tokens: Any, scores: Any, chosen: Any, counts: Any) -> Any:
        """Rows in the order of this rank's experts, and what brings them back."""
        order = torch.argsort(chosen.view(-1), stable=True)
        sorted_scores = scores.view(-1)[order]
        order = order // self.top_k
        sent = tokens[order]
        if self.mesh is None:
            return sent, counts, order, sorted_scores, None
        received = self._exchange(sent)
        permuted = torch.arange(received.shape[0])
        rows = received[permuted, :]
        local = counts.view(self.mesh.size(), -1).sum(0)
        return rows, local, order, sorted_scores, permuted

    def combine(self, output: Any, order: Any, scores: Any, permuted: Any, tokens: Any) -> Any:
        """[n, h] from rows in the order of this rank's experts."""
        if permuted is not None:
            by_rank = output.new_empty(output.shape)
            by_rank[permuted, :] = output
            output = self._exchange(by_rank)
            del by_rank
        total = torch.zeros_like(tokens)
        output = (output.to(torch.float32) * scores.reshape(-1, 1)).to(output.dtype)
        index = order.reshape(-1, 1).expand(-1, tokens.shape[-1])
        return total.scatter_add(0, index, output)

    def _exchange(self, rows: Any) -> Any:
        splits = [rows.shape[0] // self.mesh.size()] * self.mesh.size()
        return wait_tensor(all_to_all_single(rows, splits, splits, self.mesh))


class Router(nn.Module):
    """Scores in fp32, and the experts of each token."""

    def __init__(self, experts: int, hidden: int, top_k: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, experts, bias=False, dtype=dtype)
        self.top_k = top_k

    def forward(self, tokens: Any) -> Any:
        scores = functional.linear(tokens.float(), self.gate.weight.float())
        scores = torch.sigmoid(scores)
        _, chosen = torch.topk(scores, k=self.top_k, dim=-1, sorted=False)
        weights = scores.gather(dim=-1, index=chosen)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
        return weights * 1.0, chosen, scores


class Moe(nn.Module):
    """Routed experts, and shared ones beside them."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        count, twice_ffn, hidden = given.experts.gate_up_proj.shape
        dtype = given.experts.gate_up_proj.dtype
        top_k = getattr(given.gate, "top_k", None) or given.top_k
        self.router = Router(count, hidden, top_k, dtype)
        experts = GroupedExperts(count, hidden, twice_ffn // 2, dtype)
        self.routed_experts = RoutedExperts(experts, top_k)
        self.shared_experts = getattr(given, "shared_experts", None)
        self.reduces_over: Any = None

    def forward(self, hidden: Any) -> Any:
        hidden = _local(hidden)
        tokens = hidden.view(-1, hidden.shape[-1])
        weights, chosen, scores = self.router(tokens)
        routing = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, chosen, True)
        counts = routing.sum(dim=0)
        output = self.routed_experts(tokens, weights, chosen, counts)
        shared = self.shared_experts(tokens) if self.shared_experts is not None else None
        if shared is not None:
            output = output + shared
        output = output.view(hidden.shape)
        if self.reduces_over is None:
            return output
        partial_sums = DTensor.from_local(output, self.reduces_over, (Partial(),), run_check=False)
        return partial_sums.redistribute(placements=(Shard(1),)).to_local()


def _local(parameter: Any) -> Any:
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


# How both are applied


def apply_expert_parallel(model: Model, meshes: Meshes, spec: Spec) -> None:
    """Divide experts over ranks."""
    if spec.dispatch == "torchtitan":
        as_torchtitan(model, meshes, spec)
        return
    plan = model.module._expand_parallel_plan(dict(model.module.ep_plan))
    apply_expert_parallelism(model.module, meshes["ep"]["ep"], meshes["alike"], plan)


def apply_fsdp_with_experts(model: Model, meshes: Meshes, spec: Spec) -> None:
    """transformers' experts are units of their own under FSDP. torchtitan's are part of their
    layer, whose parameters are sharded over different ranks.
    """
    if spec.dispatch == "torchtitan":
        apply_fsdp(model, meshes["dp"], spec, partial(placements, meshes, spec))
        if spec.ep > 1:
            prefetch_in_order(model)
        return
    policy = mixed_precision(spec)
    for block in model.blocks:
        for module in block.modules():
            if getattr(module, "_is_expert_parallel", False):
                fully_shard(module, mesh=meshes["ep"]["efsdp"], mp_policy=policy)
    apply_fsdp(model, meshes["dp"], spec)


def as_torchtitan(model: Model, meshes: Meshes, spec: Spec) -> None:
    """torchtitan's mixtures of experts in the place of transformers': experts over expert-parallel
    ranks, else their width over tensor-parallel ones.
    """
    for block in model.blocks:
        if not hasattr(getattr(block, "mlp", None), "experts"):
            continue
        block.mlp = Moe(block.mlp)
        routed = block.mlp.routed_experts
        if spec.ep > 1:
            routed.mesh = meshes["ep"]["ep"]
            _divide(routed.inner_experts, routed.mesh, {"w1": 0, "w2": 0, "w3": 0})
        elif spec.tp > 1:
            block.mlp.reduces_over = meshes["tp"]
            _divide(routed.inner_experts, meshes["tp"], {"w1": 1, "w2": 2, "w3": 1})
            gathers = PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            )
            parallelize_module(block.mlp, meshes["tp"], gathers)


def _divide(experts: GroupedExperts, mesh: Any, dimensions: dict[str, int]) -> None:
    for name, dimension in dimensions.items():
        part = distribute_tensor(getattr(experts, name).detach(), mesh, [Shard(dimension)])
        setattr(experts, name, nn.Parameter(part))


def placements(meshes: Meshes, spec: Spec, block: Any) -> Callable[[Any], Any] | None:
    """Over which ranks FSDP shards each parameter of a layer, as torchtitan has it: matrices of
    experts over the ranks that have the same ones, by experts where there are enough.
    """
    mixture = next((each for each in block.modules() if isinstance(each, Moe)), None)
    if mixture is None:
        return None
    routed = mixture.routed_experts
    experts = set(routed.inner_experts.parameters())
    ranks = spec.world if spec.ep > 1 else meshes["dp"].size()
    by_expert = Shard(1 if ranks > routed.experts else 0)
    if spec.ep == 1:
        return lambda parameter: by_expert if parameter in experts else None
    of_experts = FSDPMeshInfo(meshes["ep"]["efsdp"], shard_mesh_dim=0)
    of_others = FSDPMeshInfo(meshes["dp"], shard_mesh_dim=0)

    def placement(parameter: Any) -> Any:
        if parameter in experts:
            return ShardPlacementResult(placement=by_expert, mesh_info=of_experts)
        return ShardPlacementResult(placement=Shard(0), mesh_info=of_others)

    return placement


def prefetch_in_order(model: Model) -> None:
    """torchtitan names the unit to gather next, both ways, since counts of rows that are read back
    to the host would keep FSDP from running ahead.
    """
    ahead = [model.embedding, *model.blocks, model.head]
    for unit, following in pairwise(ahead):
        unit.set_modules_to_forward_prefetch([following])
    behind = [model.head, *reversed(model.blocks), model.embedding]
    for unit, following in pairwise(behind):
        unit.set_modules_to_backward_prefetch([following])


@contextmanager
def balanced_routing(model: Model, spec: Spec) -> Iterator[None]:
    """Within, transformers reads that every rank sends as many rows to one rank as to another."""
    rows = spec.mbs * spec.seq * model.config.num_experts_per_tok // spec.ep

    def read(counts: Any) -> list[list[int]]:
        both_ways, ranks = counts.shape
        return [[rows] * ranks] * both_ways

    with patch.object(FakeTensor, "tolist", read):
        yield
