"""A question about a run: the job that it was, and what it said of itself."""

from typing import Annotated, Self

from pydantic import Field, Tag, model_validator

from trainfit.specs.artifacts import MAX_ARTIFACTS, Artifact, Counter, LogFormat, PeakWindow, Place
from trainfit.specs.calibration import Named
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchedJob, which
from trainfit.specs.part import Bytes, Part
from trainfit.specs.snapshot import SnapshotSummary

MAX_FIGURES = 1_000
"""More are sent as the texts that they stand in, which are read where time is limited."""

Number = Annotated[int, Field(ge=0, le=2**31)]


class Figure(Part):
    """Bytes that a counter had, as POST /v1/measurements:from-logs answers them."""

    counter: Counter
    bytes: Bytes
    resolution_bytes: Bytes = Field(0, description="The step in which they were printed.")
    peak_window: PeakWindow | None = Field(
        None, description="Since when a peak is the highest. Unset: since the run began."
    )
    rank: Number | None = Field(None, description="Whose they are, among all GPUs of the run.")
    step: Number | None = Field(None, description="After which they were read.")
    moment: Annotated[str, Field(max_length=512)] = "end of a step"
    format: LogFormat | None = None
    source: Place = Field(default_factory=lambda: Place(name="", line=0))


class Run(Part):
    """What a run said of itself: logs to read, figures that were read, a recording."""

    artifacts: Annotated[tuple[Artifact, ...], Field(strict=False, max_length=MAX_ARTIFACTS)] = ()
    measurements: Annotated[tuple[Figure, ...], Field(strict=False, max_length=MAX_FIGURES)] = ()
    snapshot_summary: SnapshotSummary | None = Field(
        None, description="A recording of the allocator, as trainfit snapshot summarize prints it."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.artifacts or self.measurements or self.snapshot_summary):
            raise ValueError("give artifacts, measurements or a snapshot_summary")
        return self


class ReconcileOptions(Part):
    """What is asked beside a job."""

    run: Run = Field(..., description="What the run of this job said of itself.")


class ReconcileRequest(ReconcileOptions, Job):
    """A job, and what its run said of itself."""


class LaunchedReconcile(ReconcileOptions, LaunchedJob):
    """A launch in the place of a job, and what its run said of itself."""


ReconcileOrLaunch = Annotated[
    Annotated[ReconcileRequest, Tag("ReconcileRequest")]
    | Annotated[LaunchedReconcile, Tag("LaunchedReconcile")],
    which(ReconcileRequest, LaunchedReconcile),
]


MAX_RUNS = 16


class CalibrationRequest(Part):
    """Runs of one cluster, each as POST /v1/reconcile takes it, and what else is known of it."""

    runs: Annotated[
        tuple[ReconcileOrLaunch, ...], Field(strict=False, min_length=1, max_length=MAX_RUNS)
    ]
    driver: Named | None = Field(None, description="The version of the driver.")
    nccl: Named | None = Field(None, description="The version of NCCL.")
    torch: Named | None = Field(None, description="The version of PyTorch.")
