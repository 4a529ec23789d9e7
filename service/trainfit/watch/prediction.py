"""What was predicted of the run that is watched. It is loaded where a watch is told what runs, so
that one which compares nothing needs no package beside PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainfit.decisions.reconcile.comparison import (
    ComparedFigure,
    comparable,
    comparisons,
    stage_of,
)
from trainfit.decisions.reconcile.findings import Counted, RunFinding, findings
from trainfit.estimator.results import Estimate, Stage
from trainfit.questions.python import AsJob, document_of, estimate
from trainfit.specs.job import Job
from trainfit.specs.reconcile import Figure
from trainfit.watch.reading import CounterReading, WatchedFigure


class Prediction:
    """The job that runs, as it would be sent, and what is expected of it; of an estimate the job
    is not known. Raises QuestionError where a job has no estimate.
    """

    def __init__(self, of: AsJob | Estimate) -> None:
        self.job: dict[str, Any] = {} if isinstance(of, Estimate) else document_of(of, Job)
        self.estimate = of if isinstance(of, Estimate) else estimate(self.job)

    def stage(self, rank: int) -> Stage | None:
        """What the stage of a rank needs; None where the job has no such rank."""
        number, _ = stage_of(rank, self.estimate)
        return None if number is None else self.estimate.stages[number]

    def beside(
        self, told: Sequence[WatchedFigure], readings: Sequence[CounterReading], rank: int
    ) -> tuple[list[ComparedFigure], list[RunFinding]]:
        """Figures beside what is expected of them, and what they say by themselves."""
        figures = [Figure(**each._asdict()) for each in told]
        found = comparisons(comparable(figures), self.estimate)
        counted = [Counted(rank, "num_alloc_retries", each.retries) for each in readings]
        return found, findings(figures, found, counted, self.estimate, None)
