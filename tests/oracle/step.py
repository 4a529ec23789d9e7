"""Two training steps, and what the second one needs."""

from __future__ import annotations

import gc
import time
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.oracle.account import Measured, account
from tests.oracle.auto_tp import apply_auto_tp
from tests.oracle.expert_parallel import (
    apply_expert_parallel,
    apply_fsdp_with_experts,
    as_torchtitan,
    balanced_routing,
)
from tests.oracle.fakes import faithful_fakes
from tests.oracle.kernels import cuda_kernels
from tests.oracle.losses import loss_of
from tests.oracle.models import AUTOCAST, Model, build, images_of
from tests.oracle.optimizers import Updates
from tests.oracle.pipeline import Pipeline, alone
from tests.oracle.recompute import apply_recompute, offloading
from tests.oracle.spec import Spec
from tests.oracle.strategies import Spread, apply_fsdp, fsdp_roles, process_group
from tests.oracle.tensor_parallel import apply_tensor_parallel
from tests.oracle.tracker import Tracker


def measure(spec: Spec, real: bool = False) -> Measured:
    """Run a spec, in fakes or with real data on the CPU, and account for its second step."""
    began = time.perf_counter()
    tracker = Tracker()
    with ExitStack() as within:
        meshes = within.enter_context(process_group(spec, real))
        within.enter_context(cuda_kernels(spec))
        within.enter_context(faithful_fakes(tracker))
        within.enter_context(fsdp_roles(tracker))
        within.enter_context(alone())
        within.enter_context(nullcontext() if real else FakeTensorMode())
        model = build(spec)
        total = sum(each.numel() for each in model.parameters())
        if "ep" in meshes:
            within.enter_context(balanced_routing(model, spec))
        passes: MicroBatches | Pipeline
        if spec.pp > 1:
            as_torchtitan(model, meshes, spec)
            passes = Pipeline(model, spec, meshes, tracker)
        else:
            passes = MicroBatches(model, spec, meshes, tracker, real)
        training = Training(passes, spec, tracker)
        with tracker:
            training.step()
            gc.collect()
            tracker.restart()
            start, first_step = tracker.level, tracker.tick
            training.step()
    local = sum(local_part(each).numel() for each in passes.parameters())
    return account(
        tracker,
        forward_end=passes.forward_end,
        step_start=start,
        first_step=first_step,
        parameters=(total, local),
        seconds=time.perf_counter() - began,
    )


def local_part(parameter: Any) -> Any:
    """What this rank holds of a parameter."""
    return getattr(parameter, "_local_tensor", parameter)


class Training:
    """What runs forward and backward, its batch and its optimizer."""

    def __init__(self, passes: MicroBatches | Pipeline, spec: Spec, tracker: Tracker) -> None:
        self._passes, self._tracker = passes, tracker
        self._updates = Updates(
            spec, [each for each in passes.parameters() if each.requires_grad], tracker
        )
        ids = torch.zeros(passes.rows, spec.seq, dtype=torch.long)
        self._batch = ids, ids.clone()
        for parameter in passes.parameters():
            tracker.name(parameter, "param")
        for buffer in passes.buffers():
            tracker.name(buffer, "buffer")
        for each in self._batch:
            tracker.name(each, "input")

    def step(self) -> None:
        self._passes.run(*self._batch)
        with self._tracker.during("optimizer"):
            self._updates.step()
            self._updates.zero_grad()


class MicroBatches:
    """A whole model, one forward and backward after the other."""

    forward_end = 0
    """Tick at which the last forward ended."""

    def __init__(
        self, model: Model, spec: Spec, meshes: dict[str, Any], tracker: Tracker, real: bool
    ) -> None:
        if "tp" in meshes:
            apply_tensor_parallel(model, meshes["tp"], spec)
        if "autotp" in meshes:
            apply_auto_tp(model, meshes["autotp"])
        if "ep" in meshes:
            apply_expert_parallel(model, meshes, spec)
        apply_recompute(model, spec)
        if "ep" in meshes:
            apply_fsdp_with_experts(model, meshes, spec)
        elif "dp" in meshes:
            apply_fsdp(model, meshes["dp"], spec)
        self._model, self._spec, self._tracker = model, spec, tracker
        self._spread = Spread(model, spec, tracker, real)
        self._inputs = {"position_ids": torch.arange(spec.seq)[None]} if spec.uses_tp else {}
        images = images_of(model, spec)
        for each in images.values():
            if isinstance(each, torch.Tensor):
                tracker.name(each, "input")
        self._inputs |= images
        if model.reference is not None:
            for parameter in model.reference.parameters():
                tracker.name(parameter, "param")
        self.rows = spec.mbs
        self.parameters = model.parameters
        self.buffers = model.module.buffers

    def run(self, ids: Any, labels: Any) -> None:
        """Every micro-batch; each reads the same tokens."""
        for reduces in self._spec.syncs:
            with self._spread.micro_batch(reduces), self._spread.loss_context():
                self._forward_and_backward(ids, labels)

    def _forward_and_backward(self, ids: Any, labels: Any) -> None:
        """A method of its own: what it holds is gone when it returns."""
        with self._tracker.during("forward"):
            with self._autocast(), offloading(self._spec):
                loss, output = loss_of(
                    self._model, self._spread.run, self._spec, ids, labels, **self._inputs
                )
            if not (self._spec.keep_logits or self._spec.openrlhf):
                del output
            if self._spec.micro_batches > 1:
                loss = loss / self._spec.micro_batches
        self.forward_end = self._tracker.tick
        with self._tracker.during("backward"):
            loss.backward()
            del loss
            for parameter in self.parameters():
                if parameter.grad is not None:
                    self._tracker.name(parameter.grad, "grad")

    def _autocast(self) -> Any:
        """Around model and loss, unless a trainer has it around the model alone."""
        dtype = None if self._spec.by_trainer else AUTOCAST.get(self._spec.dtype)
        return nullcontext() if dtype is None else torch.autocast("cpu", dtype=dtype)
