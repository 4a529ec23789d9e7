"""Optimizers with the implementation that a CUDA build would run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.oracle.spec import Spec
from tests.oracle.tracker import Tracker

MAKERS: dict[str, Callable[[Any], Any]] = {
    "adamw_foreach": lambda parameters: adamw(parameters, foreach=True),
    "adamw_fused": lambda parameters: adamw(parameters, foreach=False, fused=True),
    "adamw_forloop": lambda parameters: adamw(parameters, foreach=False),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "sgd_momentum": lambda parameters: torch.optim.SGD(
        parameters, lr=1e-3, momentum=0.9, foreach=True
    ),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, foreach=True),
    "lion": lambda parameters: Lion(parameters),
}


def adamw(parameters: Any, **implementation: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.1, **implementation)


class Lion(torch.optim.Optimizer):
    """The sign of an interpolated momentum (Chen et al. 2023), one parameter at a time."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.1})

    def step(self) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, group)

    def _update(self, parameter: Any, group: dict[str, Any]) -> None:
        fast, slow = group["betas"]
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        momentum = state["exp_avg"]
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        update = momentum.clone().mul_(fast).add_(parameter.grad, alpha=1 - fast)
        parameter.add_(update.sign_(), alpha=-group["lr"])
        momentum.mul_(slow).add_(parameter.grad, alpha=1 - slow)


class Updates:
    """The optimizer of a step, which may run while backward does."""

    def __init__(self, spec: Spec, parameters: list[Any], tracker: Tracker) -> None:
        make = MAKERS[spec.optimizer]
        self._tracker = tracker
        self._in_backward = spec.optimizer_in_backward
        if self._in_backward:
            self._optimizers = [make([each]) for each in parameters]
            for parameter, optimizer in zip(parameters, self._optimizers, strict=True):
                parameter.register_post_accumulate_grad_hook(self._update_at_once(optimizer))
        else:
            self._optimizers = [make(parameters)]

    def step(self) -> None:
        """Update every parameter whose gradient waits."""
        for optimizer in self._optimizers:
            if not self._in_backward:
                optimizer.step()
            self._name_states(optimizer)

    def zero_grad(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)

    def _update_at_once(self, optimizer: Any) -> Callable[[Any], None]:
        def update(_parameter: Any) -> None:
            with self._tracker.role("opt_temp"):
                optimizer.step()
            optimizer.zero_grad()
            self._name_states(optimizer)

        return update

    def _name_states(self, optimizer: Any) -> None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    self._tracker.name(value, "opt")
