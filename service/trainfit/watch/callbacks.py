"""A watch in the loops of others. Each is made of the class that its library wants, which is
imported when one is made.

Where a loop is one's own there is no need for any: Megatron-LM and Megatron-Bridge call
`training_log`, torchtitan `metrics_processor.log`; `watch.step_end(iteration)` goes beside it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from trainfit.watch.memory import MemoryWatch, is_full_memory

MODEL = "model"
LIGHTNING, LIGHTNING_BEFORE = "lightning.pytorch", "pytorch_lightning"
"""The packages that have Lightning, of which a script uses one."""


def trainer_callback(watch: MemoryWatch) -> Any:
    """A TrainerCallback of transformers, for `Trainer(callbacks=[...])`."""
    base: Any = import_module("transformers").TrainerCallback

    class WatchCallback(base):  # type: ignore[misc]
        """Reads a card at the steps of a Trainer."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            watch.moment(MODEL)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            watch.before_optimizer()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
            watch.step_end(state.global_step)

    return WatchCallback()


def lightning_callback(watch: MemoryWatch) -> Any:
    """A Callback of Lightning, for `Trainer(callbacks=[...])`: of the package that is imported."""
    imported = next(
        (name for name in (LIGHTNING, LIGHTNING_BEFORE) if name in sys.modules), LIGHTNING
    )
    base: Any = import_module(imported).Callback

    class WatchCallback(base):  # type: ignore[misc]
        """Reads a card at the steps of a Trainer, of which each may be several batches that a
        gradient is accumulated over, and tells of a memory that is full.
        """

        def __init__(self) -> None:
            super().__init__()
            self.last = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
            self.last = trainer.global_step
            watch.moment(MODEL)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:  # noqa: ARG002
            watch.before_optimizer()

        def on_train_batch_end(
            self,
            trainer: Any,
            pl_module: Any,  # noqa: ARG002
            outputs: Any,  # noqa: ARG002
            batch: Any,  # noqa: ARG002
            batch_idx: int,  # noqa: ARG002
        ) -> None:
            if trainer.global_step != self.last:
                self.last = trainer.global_step
                watch.step_end(self.last)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
            if is_full_memory(exception):
                watch.out_of_memory(exception)

    return WatchCallback()


def accelerate_tracker(watch: MemoryWatch) -> Any:
    """A tracker of Accelerate, for `Accelerator(log_with=[...])`: each `accelerator.log(values,
    step=step)` ends a step.
    """
    base: Any = import_module("accelerate.tracking").GeneralTracker

    class WatchTracker(base):  # type: ignore[misc]
        """Reads a card where a loop logs."""

        name = "trainfit"
        requires_logging_directory = False
        main_process_only = False

        @property
        def tracker(self) -> MemoryWatch:
            return watch

        def store_init_configuration(self, values: dict[str, Any]) -> None:  # noqa: ARG002
            watch.moment(MODEL)

        def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:  # noqa: ARG002
            watch.step_end(step)

    return WatchTracker()
