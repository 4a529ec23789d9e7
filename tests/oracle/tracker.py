"""Every storage, from its creation to its release."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.autograd.graph import register_multi_grad_hook
from torch.distributed._tools import mod_tracker
from torch.distributed._tools.common_utils import get_untyped_storages
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COLLECTIVE_RESULT = "wait_tensor.default"
VALUE = "_local_scalar_dense.default"


@dataclass(slots=True, eq=False)
class Allocation:
    """One storage. Its life is told in ticks of the tracker's clock."""

    bytes: int
    operation: str
    module: str
    phase: str
    role: str | None
    """What it is for, where that is known: param, grad, opt, ..."""
    shape: tuple[int, ...]
    dtype: str
    born: int
    died: int | None = None


@dataclass(slots=True)
class Peak:
    """The highest level seen, and when."""

    bytes: int = 0
    tick: int = 0
    phase: str = ""
    module: str = ""
    operation: str = ""


class Tracker(TorchDispatchMode):
    """Counts the bytes of the storages that operations return while it is entered.

    A tick of the clock is one storage that comes or goes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "setup"
        self.tick = 0
        self.level = 0
        self.history: list[Allocation] = []
        self.peak = Peak()
        self.phase_peaks: dict[str, Peak] = {}
        self._living: dict[int, tuple[weakref.ref[Any], Allocation]] = {}
        self._modules = mod_tracker.ModTracker()
        self._spent: list[Any] = []
        self._operation = ""
        self._role: str | None = None
        self._paused = False
        self._fake_mode: Any = None
        self._entered: list[ExitStack] = []

    # What a step tells the tracker

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Within, storages belong to a phase of the step."""
        self.phase = phase
        yield
        peak = self.phase_peaks.setdefault(phase, Peak())
        if not peak.bytes:
            # Nothing came or went.
            peak.bytes, peak.tick = self.level, self.tick
        self.phase = "idle"

    def restart(self) -> None:
        """Forget the peaks so far; what is alive stays alive."""
        self.phase_peaks = {}
        self.peak = Peak(self.level, self.tick, self.phase, self._module(), self._operation)

    def name(self, tensor: Any, role: str) -> None:
        """Say what a tensor is for, whether its storage was seen before or not."""
        for storage in get_untyped_storages(tensor):
            known = self._living.get(id(storage))
            if known:
                known[1].role = role
            else:
                local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
                self._add(storage, "external", local, role)

    def rename(self, tensor: Any, role: str) -> None:
        """Say what a tensor is for, if its storage is followed."""
        for storage in get_untyped_storages(tensor):
            if known := self._living.get(id(storage)):
                known[1].role = role

    @contextmanager
    def role(self, role: str) -> Iterator[None]:
        """What storages made within are for."""
        outer, self._role = self._role, role
        try:
            yield
        finally:
            self._role = outer

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Operations within allocate nothing on the device."""
        outer, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = outer

    def alive(self, tick: int) -> Iterator[Allocation]:
        """What was alive just after a tick."""
        for each in self.history:
            if each.born <= tick and (each.died is None or each.died > tick):
                yield each

    def requests(self) -> list[int]:
        """All that came and went, tick by tick: bytes of what came, and for what went less than
        nothing, its number among what came, from 1.
        """
        told = [0] * self.tick
        for number, each in enumerate(self.history, 1):
            told[each.born - 1] = each.bytes
            if each.died is not None:
                told[each.died - 1] = -number
        return told

    # What PyTorch tells the tracker

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        self._operation = func.__name__
        if self._operation == COLLECTIVE_RESULT:
            # A fake of it makes a new tensor; the real one hands back what it was given.
            return args[0]
        if self._operation == VALUE and self._fake_mode is not None:
            # A fake of a few numbers has them; what is computed from others decides no shape.
            known = getattr(args[0], "constant", None)
            if known is None:
                return 1.0
            with unset_fake_temporarily():
                return known.item()
        result = func(*args, **(kwargs or {}))
        if not self._paused and active_fake_mode() is self._fake_mode:
            for tensor in tree_leaves(result):
                if isinstance(tensor, torch.Tensor):
                    for storage in get_untyped_storages(tensor):
                        self._add(storage, self._operation, tensor, None)
        return result

    def __enter__(self) -> Tracker:
        self._fake_mode = active_fake_mode()
        within = ExitStack()
        within.enter_context(self._following_resizes())
        within.enter_context(patch.object(mod_tracker, "register_multi_grad_hook", self._hook))
        within.enter_context(self._modules)
        self._entered.append(within)
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._entered.pop().__exit__(*exception)

    def _following_resizes(self) -> AbstractContextManager[Any]:
        """FSDP frees and fills parameters by resizing their storages."""
        plain: Callable[[Any, int], None] = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> None:
            plain(storage, size)
            self._drop(id(storage))
            self._add(storage, "resize_", None, None)

        return patch.object(torch.UntypedStorage, "resize_", resize)

    # The account

    def _add(self, storage: Any, operation: str, tensor: Any, role: str | None) -> None:
        size, key = storage.nbytes(), id(storage)
        if key in self._living or size == 0:
            return
        role = role or self._role
        if role is None and self.phase == "backward" and torch.is_grad_enabled():
            role = "recompute"
        made = Allocation(
            bytes=size,
            operation=operation,
            module=self._module(),
            phase=self.phase,
            role=role,
            shape=(size,) if tensor is None else tuple(tensor.shape),
            dtype="byte" if tensor is None else str(tensor.dtype).removeprefix("torch."),
            born=self.tick + 1,
        )
        tracker = weakref.ref(self)

        def gone(_: Any) -> None:
            if (alive := tracker()) is not None:
                alive._drop(key)

        self._living[key] = (weakref.ref(storage, gone), made)
        self.history.append(made)
        self._change(size)

    def _drop(self, key: int) -> None:
        if known := self._living.pop(key, None):
            self._change(-known[1].bytes)
            known[1].died = self.tick

    def _change(self, size: int) -> None:
        self.tick += 1
        self.level += size
        of_phase = self.phase_peaks.setdefault(self.phase, Peak())
        for peak in (self.peak, of_phase):
            if self.level > peak.bytes:
                peak.bytes, peak.tick, peak.phase = self.level, self.tick, self.phase
                peak.module, peak.operation = self._module(), self._operation

    def _module(self) -> str:
        """The innermost module that runs, by its path in the model."""
        running = [path for path in self._modules.parents if path != "Global"]
        return (
            max(running, key=lambda path: (len(path), path)).split(".", 1)[-1] if running else "-"
        )

    def _hook(self, tensors: list[Any], hook: Callable[..., None], **options: Any) -> None:
        """A hook that goes with the backward in which it ran. It holds the node on which it hangs,
        and so all leaves below, for ever. Leaves themselves take none: a backward for inputs alone
        (`torch.autograd.grad`) does not allow it.
        """
        inner = [each for each in tensors if not each.is_leaf]
        decomposes = any("lora_magnitude_vector" in path for path in self._modules.parents)
        if not inner or decomposes:
            return  # what adapters make of an identity has no backward, and would stay
        if len(inner) == 1:
            options["mode"] = "any"  # the same, and holds no node that no backward comes to

        def once(*gradients: Any) -> None:
            if not self._spent:
                torch.autograd.Variable._execution_engine.queue_callback(self._let_go)
            self._spent.append(handle)
            hook(*gradients)

        handle = register_multi_grad_hook(inner, once, **options)

    def _let_go(self) -> None:
        for hook in self._spent:
            hook.remove()
        self._spent.clear()
