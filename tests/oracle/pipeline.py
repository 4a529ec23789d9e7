"""One rank of a pipeline, as torch.distributed.pipelining runs it. Nothing is sent or received."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining._utils import InferenceMode, generate_rank_to_stage_mapping

from tests.oracle.models import DTYPES, Model
from tests.oracle.recompute import apply_recompute
from tests.oracle.spec import Spec
from tests.oracle.strategies import sharder
from tests.oracle.tracker import Tracker

V_SHAPED = ("ZBVZeroBubble", "DualPipeV")


class Chunk(nn.Module):
    """One virtual stage of a model like Llama: layers, and what stands before or behind them. As in
    torchtitan the tables of positions are made once.
    """

    def __init__(
        self, model: Model, blocks: list[Any], rotation: Any, *, first: bool, last: bool
    ) -> None:
        super().__init__()
        self._rotation = rotation
        self.embedding: Any = model.embedding if first else None
        self.blocks = nn.ModuleList(blocks)
        self.norm: Any = model.final_norm if last else None
        self.head: Any = model.head if last else None

    def forward(self, hidden: Any) -> Any:
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        for block in self.blocks:
            hidden = block(hidden, position_embeddings=self._rotation)
        return hidden if self.head is None else self.head(self.norm(hidden))


def computed_in(spec: Spec) -> Any:
    return DTYPES["bf16" if spec.dtype == "fsdp_mp" else spec.dtype]


def chunks_of(model: Model, spec: Spec) -> dict[int, Chunk]:
    """The chunks of the spec's rank by virtual stage."""
    stages = spec.pp_layout.split("|")
    style = "v" if spec.schedule in V_SHAPED else "loop"
    held = generate_rank_to_stage_mapping(spec.pp, len(stages), style=style)[spec.pp_rank]
    starts = [0]
    for stage in stages:
        starts.append(starts[-1] + stage.count("t"))
    blocks = list(model.blocks)
    positions = torch.arange(spec.seq)[None]
    rotation = model.backbone.rotary_emb(torch.empty(0, dtype=computed_in(spec)), positions)
    return {
        index: Chunk(
            model,
            blocks[starts[index] : starts[index + 1]],
            rotation,
            first="E" in stages[index],
            last="L" in stages[index],
        )
        for index in held
    }


def shard(chunk: Chunk, mesh: Any, spec: Spec) -> None:
    """Shard a chunk as torchtitan does."""
    fully_shard = sharder(mesh, spec)
    if chunk.embedding is not None:
        fully_shard(chunk.embedding, spec.pp_reshards)
    if chunk.head is not None:
        fully_shard([chunk.norm, chunk.head], False)
    for block in chunk.blocks:
        fully_shard(block, spec.pp_reshards)
    fully_shard(chunk, False)


class Pipeline:
    """The chunks of a rank, and the schedule that runs them."""

    def __init__(self, model: Model, spec: Spec, meshes: dict[str, Any], tracker: Tracker) -> None:
        apply_recompute(model, spec)
        chunks = chunks_of(model, spec)
        self._chunks = nn.ModuleList(chunks.values())
        if "dp" in meshes:
            for chunk in chunks.values():
                shard(chunk, meshes["dp"], spec)
        self._tracker = tracker
        self._collects = spec.keep_logits
        self.rows = spec.mbs * spec.micro_batches
        last = spec.pp_layout.count("|")
        shape = spec.mbs, spec.seq
        dtype = computed_in(spec)
        ids = torch.empty(shape, dtype=torch.long)
        sent = torch.empty(*shape, model.config.hidden_size, dtype=dtype, requires_grad=True)
        logits = torch.empty(*shape, model.config.vocab_size, dtype=dtype, requires_grad=True)
        self._stages = [
            _Stage(
                chunk,
                index,
                last + 1,
                torch.device("cpu"),
                input_args=ids if index == 0 else sent,
                output_args=logits if index == last else sent,
                group=meshes["pp"].get_group(),
            )
            for index, chunk in chunks.items()
        ]
        for stage in self._stages:
            stage.tracker = tracker
        kind = schedules.get_schedule_class(spec.schedule)
        single = issubclass(kind, schedules.PipelineScheduleSingle)
        self._schedule = kind(
            self._stages[0] if single else self._stages,
            n_microbatches=spec.micro_batches,
            loss_fn=self._loss,
            scale_grads=False,
        )
        self._schedule._merge_outputs = self._after_backward(self._schedule._merge_outputs)

    def parameters(self) -> list[Any]:
        return list(self._chunks.parameters())

    def buffers(self) -> list[Any]:
        return list(self._chunks.buffers())

    @property
    def forward_end(self) -> int:
        """Tick at which the last forward ended."""
        return max(stage.forward_end for stage in self._stages)

    def run(self, ids: Any, labels: Any) -> None:
        """All forwards and backwards of a batch."""
        inputs = [ids] if any(stage.is_first for stage in self._stages) else []
        target = labels if any(stage.is_last for stage in self._stages) else None
        self._schedule.step(*inputs, target=target, return_outputs=self._collects)
        for parameter in self.parameters():
            if parameter.grad is not None:
                self._tracker.name(parameter.grad, "grad")

    def _after_backward(self, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def merged(outputs: Any) -> Any:
            with self._tracker.during("backward"):
                return plain(outputs)

        return merged

    def _loss(self, logits: Any, labels: Any) -> Any:
        with self._tracker.during("forward"):
            return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class _Stage(PipelineStage):
    """A stage whose passes are phases of the tracker."""

    tracker: Tracker
    forward_end = 0

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.tracker.during("forward"):
            output = super().forward_one_chunk(*args, **kwargs)
        self.forward_end = self.tracker.tick
        return output

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.tracker.during("backward"):
            return super().backward_one_chunk(*args, **kwargs)

    def backward_weight_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.tracker.during("backward"):
            return super().backward_weight_one_chunk(*args, **kwargs)

    def perform_reduce_grad(self, *args: Any, **kwargs: Any) -> Any:
        with self.tracker.during("backward"):
            return super().perform_reduce_grad(*args, **kwargs)


@contextmanager
def alone() -> Iterator[None]:
    """Within, a rank neither sends nor waits, and takes the shapes that it was told."""

    def agree(_schedule: Any, stages: Any, *_: Any) -> None:
        for stage in stages:
            stage._inference_mode = InferenceMode.STATIC

    with ExitStack() as within:
        within.enter_context(patch.object(schedules, "_batch_p2p", lambda *_args, **_kwargs: []))
        within.enter_context(patch.object(schedules._PipelineSchedule, "_warmup_p2p", agree))
        yield
