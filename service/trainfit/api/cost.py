"""What a question will take, known from its size before anything is priced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from trainfit.api.kinds import TOO_COSTLY
from trainfit.estimator.work import CHEAP, work
from trainfit.questions.dimensions import Find
from trainfit.questions.estimate import plan_of
from trainfit.questions.problems import ANSWER_ERRORS, Problem, problem
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckOptions
from trainfit.specs.several import BatchRequest, CompareRequest

Lane = Literal["quick", "reading", "pricing"]
"""An ordinary job is quick, its allocator replayed. It waits neither for the reading of texts, of
which nothing is known before they are read, nor for what is known to take long to price.
"""
QUICK = 50 * CHEAP
"""Work that is answered in the quick lane, in less than half a second."""
CHECK = 3
"""Estimates that a fit-check with changes takes as long as."""
RANK_BYTES = 1_000
"""What a pipeline rank takes in an answer, at least."""


class JobSize(NamedTuple):
    """The work to price jobs once, in the units of `trainfit.estimator.work`, and how many pipeline
    ranks they have in all.
    """

    work: int
    ranks: int


def size_of(jobs: Iterable[Job], find: Find, *, replay: bool = True) -> JobSize:
    """The size of what is asked about these jobs, whose allocators are replayed or not. One that is
    refused takes nothing.
    """
    units = ranks = 0
    for job in jobs:
        try:
            plan = plan_of(job, find)
        except ANSWER_ERRORS:
            continue
        units += work(plan, replay=replay)
        ranks += plan.layout.pipeline.pp
    return JobSize(units, ranks)


def lane_of(size: JobSize) -> Lane:
    """Where jobs of this size are estimated."""
    return "quick" if size.work <= QUICK else "pricing"


def lane_of_check(size: JobSize, asked: FitCheckOptions) -> Lane:
    """Where a job of this size is estimated, and changes to it are tried as asked."""
    return "quick" if (CHECK if _tries(asked) else 1) * size.work <= QUICK else "pricing"


def is_checked_at_once(size: JobSize, asked: FitCheckOptions) -> bool:
    """Whether a job of this size is checked in less than 10 ms."""
    return size.work <= CHEAP and not _tries(asked)


def _tries(asked: FitCheckOptions) -> bool:
    """Whether changes to the job are tried."""
    return asked.suggest or asked.limits.micro_batch_size or asked.limits.seq_length


def too_long(size: JobSize, max_bytes: int) -> Problem | None:
    """The problem that the answer would be, where it is longer than is sent."""
    if size.ranks * RANK_BYTES <= max_bytes:
        return None
    detail = (
        f"the jobs have {size.ranks} pipeline ranks in all, and answers to more than "
        f"{max_bytes // RANK_BYTES} are not sent at once; ask for fewer jobs"
    )
    return problem(TOO_COSTLY, detail)


def has_launch(question: BatchRequest | CompareRequest) -> bool:
    """Whether a text is to be read, of which nothing is known before."""
    launches = [each.launch for each in question.jobs or ()]
    if isinstance(question, CompareRequest):
        launches.append(question.launch)
    return any(each is not None for each in launches)
