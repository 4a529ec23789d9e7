"""The questions as functions of Python: the same answers as over HTTP, without a service.

A job is a `Job`, or a mapping of what HTTP takes: the fields of a job, or a launch in its place.
Models are those of the package, and those that the caller describes; the Hub is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from trainfit.errors import TrainfitError
from trainfit.questions.calibration import FittedCalibration, calibrated
from trainfit.questions.compare import SideBySide, compare_jobs, read_comparison
from trainfit.questions.dimensions import from_package
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.questions.fit_check import FitCheckAnswer, check_fit
from trainfit.questions.jobs import AnyJob, not_a_job
from trainfit.questions.launches import read_asked
from trainfit.questions.problems import Problem
from trainfit.questions.reconcile import ReconcileAnswer, reconciled
from trainfit.questions.search import SearchAnswer, searched
from trainfit.questions.trace import RankTrace, rank_trace
from trainfit.resolve.findings import Finding
from trainfit.specs.job import Job
from trainfit.specs.ledger import TraceRequest
from trainfit.specs.policy import FitCheckRequest
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest
from trainfit.specs.search import Objective, SearchRequest
from trainfit.specs.several import CompareRequest

Answer = TypeVar("Answer")
AsJob: TypeAlias = Job | Mapping[str, Any]


class QuestionError(TrainfitError):
    """The question has no answer; `problem` is what HTTP would say in its place."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @property
    def errors(self) -> list[Finding]:
        """What is wrong, each with a JSON Pointer into the question and a change that helps."""
        return self.problem.errors

    def __reduce__(self) -> tuple[type[QuestionError], tuple[Problem]]:
        return type(self), (self.problem,)


def estimate(job: AsJob, *, activations: bool = True, replay: bool = True) -> EstimateAnswer:
    """The memory of every pipeline rank of a job; without `activations`, model states only; without
    `replay`, what is reserved by a ratio, in a hundredth of the time.

    Raises QuestionError where the job is wrong, or holds what is not modelled.
    """
    asked = _given(read_asked(document_of(job, Job), Job))
    price = partial(answer, activations=activations, replay=replay)
    return _given(asked.answered(lambda each, reading: price(each, reading=reading)))


def fit_check(job: AsJob, **options: Any) -> FitCheckAnswer:
    """Whether a job fits the card that it names, by how much, and what would help where it does
    not. The options are those of HTTP beside the job: `gpu`, `policy`, `limits`, `suggest`,
    `replay`.

    Raises QuestionError where the job is wrong. What is not modelled is a verdict, `unknown`.
    """
    document = {**document_of(job, FitCheckRequest), **options}
    asked = _given(read_asked(document, FitCheckRequest))
    return _given(asked.answered(lambda each, reading: check_fit(each, reading=reading)))


def compare(
    jobs: Mapping[str, AsJob],
    *,
    baseline: str | None = None,
    policy: Mapping[str, Any] | None = None,
) -> SideBySide:
    """Jobs side by side, by their names, beside the baseline; unset, that is the first.

    What is wrong with one of the jobs stands in its place, as `problem`. Raises QuestionError where
    the question itself is wrong.
    """
    named = []
    for name, job in jobs.items():
        document = document_of(job, Job)
        launch = document.get("launch")
        named.append({"id": name, **({"launch": launch} if launch else {"job": document})})
    question = {"jobs": named, "baseline": baseline, "policy": policy or {}}
    try:
        request = CompareRequest.model_validate(question)
    except ValidationError as error:
        raise QuestionError(not_a_job(error, CompareRequest)) from None
    return compare_jobs(request, read_comparison(request), _unheard, find=from_package)


def search(job: AsJob, objective: Objective = "fastest", **options: Any) -> SearchAnswer:
    """The best layouts of a job, of which every field given is kept and every absent field of the
    layout is sought; of a launch the layout but for what its `overrides` say. The options are those
    of HTTP: `max_gpus`, `gpus`, `accept`, `alternatives` ..

    Raises QuestionError where the job is wrong, or nobody can say what is sought.
    """
    document = document_of(job, SearchRequest) | {"objective": objective, **options}
    asked = _given(read_asked(document, SearchRequest))
    return _given(asked.answered(lambda each, reading: searched(each, reading=reading)))


def reconcile(job: AsJob, *logs: str, **run: Any) -> ReconcileAnswer:
    """What a run took beside what was predicted of its job: `logs` are texts that it printed,
    `measurements=` figures that were read of them.

    Raises QuestionError where the job is wrong, or holds what is not modelled.
    """
    artifacts = [{"name": f"log {number}", "text": text} for number, text in enumerate(logs, 1)]
    document = document_of(job, ReconcileRequest) | {"run": {"artifacts": artifacts, **run}}
    asked = _given(read_asked(document, ReconcileRequest))
    return _given(asked.answered(lambda each, reading: reconciled(each, reading=reading)))


def trace(job: AsJob, *, pp_rank: int | None = None) -> RankTrace:
    """What PyTorch's allocator holds of a pipeline rank from moment to moment; the one that needs
    most by default.

    Raises QuestionError where the job is wrong, or its requests are not known.
    """
    document = document_of(job, TraceRequest)
    if pp_rank is not None:
        document["pp_rank"] = pp_rank
    asked = _given(read_asked(document, TraceRequest))
    return _given(asked.answered(lambda each, _: rank_trace(each)))


def calibrate(*runs: tuple[AsJob, str], **cluster: str) -> FittedCalibration:
    """What runs of a cluster took beyond their tensors: each is a job and the text that it printed.
    `driver=`, `nccl=` and `torch=` say which versions ran. Its `calibration` goes into the next
    job.

    Raises QuestionError where a job is wrong, and where the runs tell nothing.
    """
    documents = [
        document_of(job, ReconcileRequest) | {"run": {"artifacts": [{"name": "log", "text": text}]}}
        for job, text in runs
    ]
    asked = [_given(read_asked(each, ReconcileRequest)) for each in documents]
    try:
        request = CalibrationRequest.model_validate({"runs": documents, **cluster})
    except ValidationError as error:
        raise QuestionError(not_a_job(error, CalibrationRequest)) from None
    return _given(calibrated(request, asked))


def document_of(job: AsJob, kind: type[AnyJob]) -> dict[str, Any]:
    """A job as it would be sent, where a question of this kind is asked."""
    if not isinstance(job, Job):
        return dict(job)
    # What a caller left open stays open, so that its defaults are named as such.
    return job.model_dump(mode="json", exclude_unset=True, include=set(kind.model_fields))


def _given(result: Answer | Problem) -> Answer:
    if isinstance(result, Problem):
        raise QuestionError(result)
    return result


def _unheard(*_: object) -> None:
    """Nobody counts what became of each job."""
