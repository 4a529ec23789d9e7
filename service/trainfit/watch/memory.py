"""A training loop's memory: read at its steps, warned of before it is full, and put beside what was
predicted.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from trainfit.decisions.quantities import gib, gib_range, plain
from trainfit.watch.reading import CounterReading, Cuda, WatchedFigure, read

if TYPE_CHECKING:
    from trainfit.decisions.reconcile.comparison import ComparedFigure
    from trainfit.decisions.reconcile.findings import RunFinding
    from trainfit.estimator.results import Estimate
    from trainfit.questions.python import AsJob
    from trainfit.watch.prediction import Prediction

EVERY_STEP = 3
"""Steps of which each is read: states are made in the first, and the third is as those after it."""
MOST_READINGS = 128
"""When there are more, every other one is forgotten, and half as many are made."""
END_OF_STEP = "end of a step"
BEFORE_OPTIMIZER = "before the optimizer step"


class MemoryWarning(UserWarning):
    """The step that is to come is expected to find no room."""


class Foretold(NamedTuple):
    """What the next step is expected to take: allocated at its peak, and of the card."""

    allocated_bytes: int
    device_bytes: int
    capacity_bytes: int

    def __str__(self) -> str:
        return (
            f"the next step is expected to allocate {gib(self.allocated_bytes)} GiB at its peak, "
            f"and to take {gib(self.device_bytes)} of the card's {gib(self.capacity_bytes)} GiB"
        )


class MemoryReport(NamedTuple):
    """What was read, beside what was predicted where that is known."""

    figures: list[WatchedFigure]
    comparisons: list[ComparedFigure]
    findings: list[RunFinding]

    def __str__(self) -> str:
        compared = [*map(_compared, self.comparisons), *(f.message for f in self.findings)]
        return "\n".join(compared or _last(self.figures))


class MemoryWatch:
    """Reads `torch.cuda.memory_stats()` and `mem_get_info()` of one rank at steps 1 to 3, at every
    `every`-th after them, and at moments that are named; resets nothing.

    `of` is the job that runs, what its launch is, or an estimate of it; None compares nothing. With
    `folder` an error of a full memory leaves a request for POST /v1/reconcile there.
    """

    def __init__(
        self,
        of: AsJob | Estimate | None = None,
        *,
        rank: int | None = None,
        every: int = 25,
        folder: str | os.PathLike[str] | None = ".",
        cuda: Cuda | None = None,
    ) -> None:
        self.prediction: Prediction | None = None
        if of is not None:
            from trainfit.watch import prediction

            self.prediction = prediction.Prediction(of)
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.readings: list[CounterReading] = []
        self.foretold: Foretold | None = None
        self._cuda: Cuda = import_module("torch.cuda") if cuda is None else cuda
        self._folder = folder
        self._every = every
        self._step = self._next = 0
        self._stepped = False

    def moment(self, name: str) -> None:
        """Read what is so now: "model", "optimizer", "evaluation"."""
        self.readings.append(read(self._cuda, self._step, name))

    def before_optimizer(self) -> None:
        """A backward has ended, and the optimizer is to step. Read is the first time alone: states
        are made behind it, and what it had at its peak stands beside them from the second step on.
        """
        if not self._stepped:
            self.moment(BEFORE_OPTIMIZER)
            self._stepped = True

    def step_end(self, step: int | None = None) -> None:
        """A step has ended, the `step`-th of the run; unset, the next. Warns behind the first one
        where the second, which has the optimizer's states beside all else, is expected to find no
        room.
        """
        self._step = self._step + 1 if step is None else step
        if self._step < self._next:
            return
        first, self._stepped = not self._next, True
        self.readings.append(read(self._cuda, self._step, END_OF_STEP))
        self._next = self._step + (1 if self._step < EVERY_STEP else self._every)
        if first:
            self._foretell()
        if len(self.readings) > MOST_READINGS:
            self.readings[:] = self.readings[:8] + self.readings[8::2]
            self._every *= 2

    def report(self) -> MemoryReport:
        """What was read, beside what was predicted."""
        figures = [f for each in self.readings for f in each.figures(self.rank)]
        if self.prediction is None:
            return MemoryReport(figures, [], [])
        return MemoryReport(figures, *self.prediction.beside(figures, self.readings, self.rank))

    def question(self, error: BaseException | None = None) -> dict[str, Any]:
        """The request to send to POST /v1/reconcile about the run."""
        figures = [f._asdict() for each in self.readings for f in each.figures(self.rank)]
        artifacts = [] if error is None else [{"name": f"rank {self.rank}", "text": str(error)}]
        run = {"artifacts": artifacts, "measurements": figures}
        job = {} if self.prediction is None else self.prediction.job
        return {**job, "run": run}

    def out_of_memory(self, error: BaseException) -> Path | None:
        """Leave the question in the folder, and say where."""
        if self._folder is None:
            return None
        path = Path(self._folder) / f"trainfit-out-of-memory-rank{self.rank}.json"
        path.write_text(json.dumps(self.question(error)), "utf-8")
        warnings.warn(f"{path} has what POST /v1/reconcile answers", MemoryWarning, stacklevel=3)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and is_full_memory(error):
            self.out_of_memory(error)

    def _foretell(self) -> None:
        """What the second step will take: what is there now, with states, and what a step adds: as
        read before the optimizer stepped, else as predicted, else at most.
        """
        now, before = self.readings[-1], self.readings[0]
        stage = None if self.prediction is None else self.prediction.stage(self.rank)
        backward = [each for each in self.readings[1:] if each.moment == BEFORE_OPTIMIZER]
        if stage is None or backward:
            peak = (backward or [now])[0]["allocated_bytes.all.peak"]
            adds = peak - before["allocated_bytes.all.current"]
            slack = now["reserved_bytes.all.peak"] - now["allocated_bytes.all.peak"]
        else:
            adds = stage.allocated_bytes.expected - stage.resident_bytes
            slack = stage.reserved_bytes.expected - stage.allocated_bytes.expected
        allocated = now["allocated_bytes.all.current"] + max(0, adds)
        outside = now.device_used - now["reserved_bytes.all.current"]
        reserved = max(allocated + max(0, slack), now["reserved_bytes.all.current"])
        self.foretold = Foretold(allocated, reserved + max(0, outside), now.capacity)
        if self.foretold.allocated_bytes + max(0, outside) > now.capacity:
            warnings.warn(str(self.foretold), MemoryWarning, stacklevel=4)


NO_ROOM = ("out of memory", "_STATUS_ALLOC_FAILED")
"""Words of errors that have no class of their own: those of the driver, and of cuBLAS and cuDNN."""


def is_full_memory(error: BaseException) -> bool:
    """Whether no room was found: PyTorch's own error, that of an older release, or a library's."""
    named = type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and any(e in str(error) for e in NO_ROOM))


def _compared(each: ComparedFigure) -> str:
    if each.predicted is None:
        return f"{each.quantity}: {gib(each.measured_bytes)} GiB, not compared: {each.why}"
    return (
        f"{each.quantity}: {gib(each.measured_bytes)} GiB, {plain(each.verdict)} "
        f"{gib_range(each.predicted)}, expected {gib(each.predicted.expected)}"
    )


def _last(figures: Sequence[WatchedFigure]) -> list[str]:
    """What each counter had when it was last read."""
    last = {each.counter: each for each in figures}
    return [f"{each.counter}: {gib(each.bytes)} GiB, step {each.step}" for each in last.values()]
