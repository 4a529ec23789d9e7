"""A plan of tensor parallelism for models with Llama's or GPT's names of linears."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from tests.oracle.models import Model
from tests.oracle.spec import Spec

COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "c_fc", "fc1")
ROWS = ("o_proj", "dense", "down_proj", "c_proj", "fc2")
HEAD_NORMS = ("q_norm", "k_norm")


class ReplicatedNorm(SequenceParallel):
    """A norm that every rank computes whole."""

    def _apply(self, module: Any, device_mesh: Any) -> Any:
        def enter(_module: Any, inputs: Any, mesh: Any) -> Any:
            return tuple(
                each
                if isinstance(each, DTensor)
                else DTensor.from_local(each, mesh, (Replicate(),), run_check=False)
                for each in inputs
            )

        def leave(_module: Any, output: Any, _mesh: Any) -> Any:
            return output.to_local()

        return distribute_module(module, device_mesh, self._replicate_module_fn, enter, leave)


def apply_tensor_parallel(model: Model, mesh: Any, spec: Spec) -> None:
    """Divide linears, embedding and head over a mesh; norms by sequence, or not at all."""
    between = Shard(1) if spec.sp else Replicate()
    norm = SequenceParallel if spec.sp else ReplicatedNorm
    tied = model.tied
    for block in model.blocks:
        plan = block_plan(block, between, norm)
        if hasattr(getattr(block, "mlp", None), "experts"):
            # How experts are divided is said where they are made.
            plan = {path: style for path, style in plan.items() if not path.startswith("mlp")}
        parallelize_module(block, mesh, plan)
    outside: list[tuple[Any, Any]] = [
        (model.embedding, RowwiseParallel(input_layouts=Replicate(), output_layouts=between)),
        (model.final_norm, norm()),
        (
            model.head,
            ColwiseParallel(
                input_layouts=between,
                output_layouts=Shard(-1) if spec.loss_parallel else Replicate(),
                use_local_output=not spec.loss_parallel,
            ),
        ),
    ]
    for module, style in outside:
        parallelize_module(module, mesh, style)
    if tied:
        # Both are divided by rows of the vocabulary.
        model.head.weight = model.embedding.weight


def block_plan(block: Any, between: Any, norm: Any) -> dict[str, Any]:
    """How the modules of a decoder layer are divided, by path."""
    plan: dict[str, Any] = {}
    for path, module in block.named_modules():
        name = path.rpartition(".")[2]
        if name in COLUMNS and isinstance(module, nn.Linear):
            plan[path] = ColwiseParallel()
        elif name in ROWS and isinstance(module, nn.Linear):
            plan[path] = RowwiseParallel(output_layouts=between)
        elif name in HEAD_NORMS:
            plan[path] = SequenceParallel(sequence_dim=2, use_local_output=True)
        elif "norm" in name and "." not in path:
            plan[path] = norm()
        elif path == "self_attn":
            plan[path] = PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": between},
                desired_input_kwarg_layouts={"hidden_states": Replicate()},
            )
        elif path == "mlp":
            plan[path] = PrepareModuleInput(
                input_layouts=(between,), desired_input_layouts=(Replicate(),)
            )
    return plan
