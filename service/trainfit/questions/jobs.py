"""A job as it was written, read by itself: what HTTP and the terminal do alike."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from trainfit.questions.invalid_fields import invalid_fields
from trainfit.questions.kinds import INVALID_JOB, MAX_ERRORS
from trainfit.questions.problems import (
    ANSWER_ERRORS,
    HasModel,
    Problem,
    problem,
    problem_of,
    summary,
)
from trainfit.specs.job import Job
from trainfit.specs.part import Part

AnyJob = TypeVar("AnyJob", bound=Job)
Question = TypeVar("Question", bound=HasModel)
Answer = TypeVar("Answer")


def read_job(document: Any, kind: type[AnyJob]) -> AnyJob | Problem:
    """The job, or what is wrong with its fields."""
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        return not_a_job(error, kind)


def not_a_job(error: ValidationError, kind: type[Part]) -> Problem:
    """What is wrong with the fields of a job."""
    findings = invalid_fields(error.errors()[:MAX_ERRORS], kind)
    return problem(INVALID_JOB, summary(findings), findings)


def answered(job: Question, answer: Callable[[Question], Answer]) -> Answer | Problem:
    """The answer, or why there is none."""
    try:
        return answer(job)
    except ANSWER_ERRORS as error:
        return problem_of(error, job)
