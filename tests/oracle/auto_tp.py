"""Linears divided as DeepSpeed's tensor parallelism divides them: by columns, by rows, and the head
by columns with its logits gathered. All else is whole. Source: deepspeed/module_inject/layers.py.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.oracle.models import Model
from tests.oracle.tensor_parallel import COLUMNS, ROWS


class IntoColumns(torch.autograd.Function):
    """What every rank reads: its gradients are added up."""

    @staticmethod
    def forward(context: Any, group: Any, inputs: Any) -> Any:
        context.group = group
        return inputs

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        dist.all_reduce(gradient.contiguous(), group=context.group)
        return None, gradient


class FromRows(torch.autograd.Function):
    """What every rank made a part of: the parts are added up."""

    @staticmethod
    def forward(_context: Any, group: Any, inputs: Any) -> Any:
        dist.all_reduce(inputs.contiguous(), group=group)
        return inputs

    @staticmethod
    def backward(_context: Any, *gradients: Any) -> Any:
        return None, gradients[0]


class Gathered(torch.autograd.Function):
    """The columns of all ranks side by side."""

    @staticmethod
    def forward(context: Any, group: Any, inputs: Any) -> Any:
        ranks = dist.get_world_size(group)
        context.width = inputs.shape[-1]
        buffer = inputs.new_empty((ranks * inputs.shape[0], *inputs.shape[1:]))
        dist.all_gather_into_tensor(buffer, inputs.contiguous(), group=group)
        return torch.cat(list(buffer.view(ranks, *inputs.shape)), dim=-1)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        return None, gradient.narrow(-1, 0, context.width).contiguous()


class ColumnLinear(nn.Module):
    """A part of the outputs of a linear."""

    def __init__(self, linear: nn.Linear, mesh: Any, *, gathers: bool = False) -> None:
        super().__init__()
        self.group, self.gathers = mesh.get_group(), gathers
        self.weight = nn.Parameter(linear.weight.detach().chunk(mesh.size(), 0)[0].clone())

    def forward(self, inputs: Any) -> Any:
        inputs = IntoColumns.apply(self.group, inputs)
        output = torch.matmul(inputs, self.weight.transpose(-1, -2))
        return Gathered.apply(self.group, output) if self.gathers else output


class RowLinear(nn.Module):
    """A linear of a part of its inputs."""

    def __init__(self, linear: nn.Linear, mesh: Any) -> None:
        super().__init__()
        self.group = mesh.get_group()
        self.weight = nn.Parameter(linear.weight.detach().chunk(mesh.size(), 1)[0].clone())

    def forward(self, inputs: Any) -> Any:
        return FromRows.apply(self.group, torch.matmul(inputs, self.weight.transpose(-1, -2)))


def apply_auto_tp(model: Model, mesh: Any) -> None:
    """Divide the linears of the layers, and the head unless it is tied."""
    for block in model.blocks:
        for owner in list(block.modules()):
            for name, child in list(owner.named_children()):
                if name in COLUMNS and isinstance(child, nn.Linear):
                    setattr(owner, name, ColumnLinear(child, mesh))
                elif name in ROWS and isinstance(child, nn.Linear):
                    setattr(owner, name, RowLinear(child, mesh))
    if not model.tied:
        model.module.set_output_embeddings(ColumnLinear(model.head, mesh, gathers=True))
