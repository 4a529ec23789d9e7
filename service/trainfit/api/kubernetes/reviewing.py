"""From a question of the API server to its answer. Whatever is not certain passes, with a warning:
an estimator must not stop a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Literal

from trainfit.api.jobs import answered
from trainfit.api.kubernetes.annotations import JOB, AnnotationError, FailOn, question
from trainfit.api.kubernetes.review import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReviewed,
    Refusal,
)
from trainfit.api.kubernetes.warnings import line, mismatch, not_checked, reasons
from trainfit.api.problems import Problem
from trainfit.decisions.verdict import Verdict
from trainfit.dimensions import Find, from_package
from trainfit.estimator.results import Estimate
from trainfit.fit import FitCheckAnswer, check_fit
from trainfit.kubernetes.workloads import workload
from trainfit.pricing import Pricing
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

Outcome = Verdict | Literal["no_job", "not_checked"]
SUGGESTING_SECONDS = 0.25
"""For changes that would help: a verdict takes a few milliseconds, and the API server a second."""

Told = Callable[[FitCheckRequest, FitCheckAnswer | Problem], None]
"""Is told what became of each well-formed job."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of one object."""

    outcome: Outcome
    warnings: tuple[str, ...] = ()
    refusal: Refusal | None = None
    digest: str | None = None

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


def decide(
    request: AdmissionRequest, told: Told, *, enforce: bool, find: Find = from_package
) -> Decision:
    """Whether an object may pass. Where nothing is enforced, all that speaks against it is a
    warning.
    """
    document = request.object or {}
    annotations = _annotations(document)
    if JOB not in annotations:
        return Decision("no_job")
    asked = workload(request.kind.group, request.kind.kind, document)
    try:
        asking = question(annotations, asked)
    except AnnotationError as error:
        return undecided(str(error))
    price = hurried(SUGGESTING_SECONDS, Pricing(find))
    check = answered(asking.request, partial(check_fit, find=find, price=price))
    told(asking.request, check)
    if isinstance(check, Problem):
        return undecided(check.detail)
    aside, why = mismatch(check, asked), reasons(check)
    if enforce and _fails(check, asking.fail_on):
        refusal = Refusal("Failure", "\n".join(why), "Forbidden", HTTPStatus.FORBIDDEN)
        return Decision(check.verdict, aside, refusal, check.request_digest)
    warnings = (*map(line, why), *aside)
    return Decision(check.verdict, warnings, None, check.request_digest)


def hurried(seconds: float, pricing: Pricing) -> Callable[[Job], Estimate]:
    """Prices a job and, until so long from now, the changes to it. Those that come later are
    refused, and so are not suggested.
    """
    end = monotonic() + seconds
    decided = False

    def priced(job: Job) -> Estimate:
        nonlocal decided
        if decided and monotonic() > end:
            raise RefusedError(())
        estimate = pricing.estimate(job)
        decided = True
        return estimate

    return priced


def _annotations(document: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _fails(check: FitCheckAnswer, fail_on: FailOn) -> bool:
    """Only a verdict that is certain fails, unless the job itself asks for more."""
    if check.verdict == "tight":
        return fail_on == "tight" and not check.passes
    return check.verdict == "does_not_fit"
