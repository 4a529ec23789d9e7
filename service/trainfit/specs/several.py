"""Questions about several jobs at once."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainfit.specs.job import AS_JOB, Job
from trainfit.specs.launch import AS_LAUNCH, Launch
from trainfit.specs.part import Part
from trainfit.specs.policy import Headroom

MAX_JOBS = 64
MAX_OPERATIONS = 32
UNCHANGED = "job"
"""The id of the job to which changes are compared."""


Id = Annotated[str, Field(min_length=1, max_length=128)]


class NamedJob(Part):
    """A job, or a launch in its place, and what the caller calls it. It is read by itself, so that
    what is wrong with it is said of it alone.
    """

    id: Id = Field(..., description="Repeated in the answer.")
    job: Annotated[Any, AS_JOB] = None
    launch: Annotated[Any, AS_LAUNCH] = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.job is None) is (self.launch is None):
            raise ValueError("give either job or launch")
        return self


class Operation(Part):
    """One operation of a JSON Patch (RFC 6902) on a job."""

    op: Literal["add", "replace", "remove"]
    path: Annotated[str, Field(max_length=256)]
    value: Any = None


class NamedChange(Part):
    """A change to a job and what the caller calls it."""

    id: Id = Field(..., description="Repeated in the answer.")
    patch: Annotated[tuple[Operation, ...], Field(strict=False, max_length=MAX_OPERATIONS)] = Field(
        ..., description="A JSON Patch (RFC 6902); paths lead through objects."
    )


Jobs = Annotated[tuple[NamedJob, ...], Field(strict=False, min_length=1, max_length=MAX_JOBS)]
Changes = Annotated[tuple[NamedChange, ...], Field(strict=False, min_length=1, max_length=MAX_JOBS)]


class BatchRequest(Part):
    """Jobs to be answered one by one."""

    jobs: Jobs

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_distinct(each.id for each in self.jobs)
        return self


class CompareRequest(Part):
    """Either jobs, or one job (or a launch) and changes to it."""

    jobs: Jobs | None = Field(None, description="Jobs side by side.")
    baseline: Id | None = Field(
        None,
        description="The id of one of the jobs, which the others differ from. Unset: the first.",
    )
    job: Job | None = Field(
        None, description=f'A job that changes are compared to; its id is "{UNCHANGED}".'
    )
    launch: Launch | None = Field(None, description="A launch in the place of that job.")
    changes: Changes | None = Field(None, description="Changes to the job, each by itself.")
    policy: Headroom = Field(
        default_factory=Headroom, description="What every job is to leave free of its GPU."
    )
    replay: bool = Field(
        True,
        description="Whether the requests of few jobs to the allocator are replayed. false: what "
        "each reserves rests on a ratio, with wider bounds, in a hundredth of the time.",
    )

    @model_validator(mode="after")
    def _either(self) -> Self:
        one = [each for each in (self.job, self.launch) if each is not None]
        if self.jobs is not None and not one and self.changes is None:
            ids = [each.id for each in self.jobs]
            if self.baseline is not None and self.baseline not in ids:
                raise ValueError("baseline is the id of none of the jobs")
            _check_distinct(ids)
        elif self.jobs is None and len(one) == 1 and self.changes is not None:
            if self.baseline is not None:
                raise ValueError("changes are compared to the job; leave baseline out")
            _check_distinct((each.id for each in self.changes), UNCHANGED)
        else:
            raise ValueError("give either jobs, or one of job and launch, and changes")
        return self


def _check_distinct(ids: Iterable[str], *taken: str) -> None:
    seen = set(taken)
    for number, each in enumerate(ids, 1):
        if each in seen:
            raise ValueError(f"the id of number {number} is taken already")
        seen.add(each)
