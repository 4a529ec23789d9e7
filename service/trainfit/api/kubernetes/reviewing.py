"""From a question of the API server to its answer. Whatever is not certain passes, with a warning:
an estimator must not stop a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Literal

from trainfit.api.kubernetes.annotations import JOB, AnnotationError, FailOn, Question, question
from trainfit.api.kubernetes.review import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReviewed,
    Refusal,
)
from trainfit.api.kubernetes.warnings import line, mismatch, not_checked, reasons
from trainfit.api.replies import JobOutcome, fit_check_tally
from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import Estimate
from trainfit.kubernetes.workloads import Workload, workload
from trainfit.questions.dimensions import Find
from trainfit.questions.fit_check import Changes, FitCheckAnswer, check_fit
from trainfit.questions.jobs import answered
from trainfit.questions.pricing import Pricing
from trainfit.questions.problems import Problem
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

Outcome = Verdict | Literal["no_job", "not_checked"]
SUGGESTING_SECONDS = 0.25
"""For changes that would help: a verdict takes a few milliseconds, and the API server a second."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of one object, and what is counted of its job, if that is well formed."""

    outcome: Outcome
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None
    digest: str | None = None
    tally: JobOutcome | None = None

    def answer(self, uid: str) -> AdmissionReviewed:
        """The decision in the words of Kubernetes."""
        audit = {"verdict": self.outcome, "request-digest": self.digest}
        return AdmissionReviewed(
            api_version="admission.k8s.io/v1",
            kind="AdmissionReview",
            response=AdmissionResponse(
                uid=uid,
                allowed=self.refusal is None,
                status=self.refusal,
                warnings=list(self.warnings),
                audit_annotations={key: value for key, value in audit.items() if value is not None},
            ),
        )


def undecided(reason: str) -> Decision:
    """The object passes without having been checked."""
    return Decision("not_checked", (not_checked(reason),))


@dataclass(frozen=True, slots=True)
class Asking:
    """The question that an object asks, and what its pods ask for."""

    question: Question
    workload: Workload


def asking_of(request: AdmissionRequest) -> Asking | Decision:
    """What an object asks, or why nothing about it is decided."""
    document = request.object or {}
    annotations = _annotations(document)
    if JOB not in annotations:
        return Decision("no_job")
    asked = workload(request.kind.group, request.kind.kind, document)
    try:
        return Asking(question(annotations, asked), asked)
    except AnnotationError as error:
        return undecided(str(error))


def decide(asking: Asking, find: Find, enforce: bool) -> Decision:
    """Whether an object may pass. Where nothing is enforced, all that speaks against it is a
    warning.
    """
    request, asked = asking.question.request, asking.workload
    pricing = Pricing(find)
    changes = hurried(SUGGESTING_SECONDS, pricing)
    check = answered(request, partial(check_fit, find=find, pricing=pricing, changes=changes))
    tally = fit_check_tally(request, check)
    if isinstance(check, Problem):
        return replace(undecided(check.detail), tally=tally)
    aside, why = mismatch(check, asked), reasons(check)
    if enforce and _fails(check, asking.question.fail_on):
        refusal = Refusal("Failure", "\n".join(why), "Forbidden", HTTPStatus.FORBIDDEN)
        return Decision(check.verdict, aside, refusal, check.request_digest, tally)
    warnings = (*map(line, why), *aside)
    return Decision(check.verdict, warnings, None, check.request_digest, tally)


def hurried(seconds: float, pricing: Pricing) -> Changes:
    """Looks for changes for so long, and prices the best that it has found, and others while there
    is time. Those that come later are refused, and so are not suggested.
    """
    end: float | None = None
    offered = 0

    def is_late() -> bool:
        nonlocal end
        end = monotonic() + seconds if end is None else end
        return monotonic() >= end

    def priced(job: Job) -> Estimate:
        nonlocal offered
        offered += 1
        if is_late() and offered > 1:
            raise RefusedError(())
        return pricing.estimate(job)

    def scouted(job: Job) -> Estimate:
        if is_late():
            raise RefusedError(())
        return pricing.estimate(job, replay=False)

    return priced, scouted


def _annotations(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _fails(check: FitCheckAnswer, fail_on: FailOn) -> bool:
    """Only a verdict that is certain fails, unless the job itself asks for more."""
    if check.verdict == "tight":
        return fail_on == "tight" and not check.passes
    return check.verdict == "does_not_fit"
