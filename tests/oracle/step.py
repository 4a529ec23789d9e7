"""Two training steps, and what the second one needs."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.oracle.account import Measured, account
from tests.oracle.fakes import faithful_fakes
from tests.oracle.kernels import cuda_kernels
from tests.oracle.losses import loss_of
from tests.oracle.models import Model, build
from tests.oracle.optimizers import Updates
from tests.oracle.recompute import apply_recompute, offloading
from tests.oracle.spec import Spec
from tests.oracle.strategies import Spread, apply_fsdp, fsdp_roles, process_group
from tests.oracle.tensor_parallel import apply_tensor_parallel
from tests.oracle.tracker import Tracker

AUTOCAST = {"autocast": torch.bfloat16, "autocast_fp16": torch.float16}


def measure(spec: Spec, real: bool = False) -> Measured:
    """Run a spec, in fakes or with real data on the CPU, and account for its second step."""
    began = time.perf_counter()
    tracker = Tracker()
    with ExitStack() as within:
        meshes = within.enter_context(process_group(spec, real))
        within.enter_context(cuda_kernels(spec))
        within.enter_context(faithful_fakes(tracker))
        within.enter_context(fsdp_roles(tracker))
        within.enter_context(nullcontext() if real else FakeTensorMode())
        model = build(spec)
        total = sum(each.numel() for each in model.parameters())
        if "tp" in meshes:
            apply_tensor_parallel(model, meshes["tp"], spec)
        apply_recompute(model, spec)
        if "dp" in meshes:
            apply_fsdp(model, meshes["dp"], spec)
        training = Training(model, spec, tracker, real)
        with tracker:
            training.step()
            gc.collect()
            tracker.restart()
            start = tracker.level
            training.step()
    local = sum(local_part(each).numel() for each in model.parameters())
    return account(
        tracker,
        forward_end=training.forward_end,
        step_start=start,
        parameters=(total, local),
        seconds=time.perf_counter() - began,
    )


def local_part(parameter: Any) -> Any:
    """What this rank holds of a parameter."""
    return getattr(parameter, "_local_tensor", parameter)


@dataclass(slots=True)
class Training:
    """A model, its batch and its optimizer."""

    model: Model
    spec: Spec
    tracker: Tracker
    real: bool
    forward_end: int = 0
    """Tick at which the last forward ended."""
    _spread: Spread = field(init=False)
    _updates: Updates = field(init=False)
    _batch: tuple[Any, Any] = field(init=False)
    _inputs: dict[str, Any] = field(init=False)
    _trained: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        spec = self.spec
        self._spread = Spread(self.model, spec, self.tracker, self.real)
        self._trained = [each for each in self.model.parameters() if each.requires_grad]
        self._updates = Updates(spec, self._trained, self.tracker)
        ids = torch.zeros(spec.mbs, spec.seq, dtype=torch.long)
        self._batch = ids, ids.clone()
        self._inputs = {"position_ids": torch.arange(spec.seq)[None]} if spec.uses_tp else {}
        for parameter in self.model.parameters():
            self.tracker.name(parameter, "param")
        for buffer in self.model.module.buffers():
            self.tracker.name(buffer, "buffer")
        for each in self._batch:
            self.tracker.name(each, "input")

    def step(self) -> None:
        for reduces in self.spec.syncs:
            with self._spread.micro_batch(reduces), self._spread.loss_context():
                self._forward_and_backward()
        with self.tracker.during("optimizer"):
            self._updates.step()
            self._updates.zero_grad()

    def _forward_and_backward(self) -> None:
        """A method of its own: what it holds is gone when it returns."""
        with self.tracker.during("forward"):
            with self._autocast(), offloading(self.spec):
                loss, output = loss_of(
                    self.model, self._spread.run, self.spec, *self._batch, **self._inputs
                )
            if not self.spec.keep_logits:
                del output
            if self.spec.micro_batches > 1:
                loss = loss / self.spec.micro_batches
        self.forward_end = self.tracker.tick
        with self.tracker.during("backward"):
            loss.backward()
            del loss
            for parameter in self._trained:
                if parameter.grad is not None:
                    self.tracker.name(parameter.grad, "grad")

    def _autocast(self) -> Any:
        dtype = AUTOCAST.get(self.spec.dtype)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype=dtype)
