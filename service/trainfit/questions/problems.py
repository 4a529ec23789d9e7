"""Everything that can go wrong, as RFC 9457 problem details. Nothing here knows HTTP's machinery,
so the terminal answers with the same words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, Protocol

from pydantic import Field

from trainfit import __version__
from trainfit.architectures.config import ConfigError, UnsupportedModelTypeError
from trainfit.catalog.gpus import UnknownGpuError
from trainfit.hub.errors import (
    AdapterError,
    GatedRepoError,
    HubError,
    MalformedAnswerError,
    MissingRevisionError,
    NoAnswerError,
    NoConfigError,
    NotAllowedError,
    RateLimitedError,
    RenamedRepoError,
    SlowHubError,
)
from trainfit.questions.dimensions import UnknownModelError
from trainfit.questions.estimate import VersionNotServedError
from trainfit.questions.kinds import (
    ADAPTER_MODEL,
    GATED_MODEL,
    HUB_ANSWER,
    HUB_RATE_LIMITED,
    HUB_TIMEOUT,
    HUB_UNAVAILABLE,
    INVALID_LAYOUT,
    INVALID_MODEL,
    MODEL_NOT_ALLOWED,
    MODEL_WITHOUT_CONFIG,
    NOT_MODELLED,
    RENAMED_MODEL,
    UNKNOWN_GPU,
    UNKNOWN_MODEL,
    UNKNOWN_REVISION,
    UNSUPPORTED_MODEL,
    VERSION_NOT_SERVED,
    ProblemKind,
)
from trainfit.resolve.findings import Change, Finding, RefusedError
from trainfit.specs.gpu import CustomGpu
from trainfit.specs.job import Job
from trainfit.specs.model import Model

ANSWER_ERRORS = (
    RefusedError,
    ConfigError,
    UnknownModelError,
    HubError,
    UnknownGpuError,
    VersionNotServedError,
)
"""What `answer` raises for a job that it does not price."""


REFUSED_BY_HUB: Mapping[type[HubError], tuple[ProblemKind, str]] = {
    NotAllowedError: (MODEL_NOT_ALLOWED, "/model/hf_id"),
    GatedRepoError: (GATED_MODEL, "/model/hf_id"),
    MissingRevisionError: (UNKNOWN_REVISION, "/model/revision"),
    RenamedRepoError: (RENAMED_MODEL, "/model/hf_id"),
    NoConfigError: (MODEL_WITHOUT_CONFIG, "/model/hf_id"),
    AdapterError: (ADAPTER_MODEL, "/model/hf_id"),
}
"""The kind that each is, and the field that is to be changed."""

NO_ANSWER: Mapping[type[HubError], ProblemKind] = {
    RateLimitedError: HUB_RATE_LIMITED,
    SlowHubError: HUB_TIMEOUT,
    MalformedAnswerError: HUB_ANSWER,
}
RETRY_SECONDS = 5
"""Where the Hub does not say when to ask again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem details (RFC 9457).

    `type` is the path of a page that explains it, `instance` a URN with the request id, null where
    no request was made. The pointers of `errors` are JSON Pointers (RFC 6901) into the body.
    `retry_after_seconds` goes into the Retry-After header.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str | None
    errors: list[Finding]
    retry_after_seconds: Annotated[int | None, Field(exclude=True)] = None


def problem(
    kind: ProblemKind,
    detail: str,
    errors: Sequence[Finding] = (),
    retry_after_seconds: int | None = None,
) -> Problem:
    """A problem of this kind."""
    return Problem(
        type=f"/problems/{kind.slug}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=None,
        errors=list(errors),
        retry_after_seconds=retry_after_seconds,
    )


class HasModel(Protocol):
    """A job, or another question with a model."""

    @property
    def model(self) -> Model: ...


def problem_of(error: Exception, job: HasModel) -> Problem:
    """The problem that one of ANSWER_ERRORS is for this job; any other error is raised again."""
    match error:
        case RefusedError():
            modelled = all(finding.code != "not_modelled" for finding in error.findings)
            kind = INVALID_LAYOUT if modelled else NOT_MODELLED
            return problem(kind, summary(error.findings), error.findings)
        case VersionNotServedError():
            change = Change("replace", "/estimator_version", __version__)
            finding = Finding("/estimator_version", "version_not_served", str(error), (change,))
            return problem(VERSION_NOT_SERVED, str(error), [finding])
        case UnsupportedModelTypeError():
            finding = _in_config(job, error, "unsupported_model_type")
            return problem(UNSUPPORTED_MODEL, error.message, [finding])
        case ConfigError():
            finding = _in_config(job, error, "invalid_config")
            return problem(INVALID_MODEL, summary([finding]), [finding])
        case UnknownModelError():
            return _unknown(UNKNOWN_MODEL, "/model/hf_id", str(error), error.close_matches)
        case NoAnswerError():
            return _no_answer(error)
        case HubError():
            return _of_hub(error)
        case UnknownGpuError():
            named = isinstance(job, Job) and isinstance(job.gpu, CustomGpu)
            pointer = "/gpu/name" if named else "/gpu"
            return _unknown(UNKNOWN_GPU, pointer, str(error), error.close_matches)
        case _:
            raise error


def summary(findings: Sequence[Finding]) -> str:
    """The first finding with its place, and how many more there are."""
    first = findings[0]
    line = f", line {first.line}" if first.line is not None else ""
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{first.pointer or 'the body'}{line}: {first.message}{more}"


def within(prefix: str, found: Problem) -> Problem:
    """The problem of a job that stands at `prefix` of the body."""
    errors = [replace(each, pointer=prefix + each.pointer) for each in found.errors]
    return replace(found, errors=errors, detail=summary(errors) if errors else found.detail)


def _unknown(
    kind: ProblemKind, pointer: str, message: str, close_matches: Sequence[str]
) -> Problem:
    changes = tuple(Change("replace", pointer, name) for name in close_matches[:1])
    return problem(kind, message, [Finding(pointer, "unknown_name", message, changes)])


def _in_config(job: HasModel, error: ConfigError, code: str) -> Finding:
    """What is wrong with a config, in the body or on the Hub."""
    if job.model.hf_id is not None:
        key = error.key.lstrip("/")
        return Finding("/model/hf_id", code, f"{key}: {error.message}" if key else error.message)
    part = "hf_config" if job.model.hf_config is not None else "spec"
    return Finding(f"/model/{part}{error.key}", code, error.message)


def _of_hub(error: HubError) -> Problem:
    """What the Hub has under the id is no config, or it is not asked."""
    kind, pointer = REFUSED_BY_HUB.get(type(error), (UNKNOWN_MODEL, "/model/hf_id"))
    changes = (Change("replace", pointer, error.instead),) if error.instead is not None else ()
    code = kind.slug.replace("-", "_")
    return problem(kind, str(error), [Finding(pointer, code, str(error), changes)])


def _no_answer(error: NoAnswerError) -> Problem:
    """The Hub is to blame, not the job."""
    kind = NO_ANSWER.get(type(error), HUB_UNAVAILABLE)
    wait = RETRY_SECONDS if error.retry_after is None else max(1, ceil(error.retry_after))
    return problem(kind, f"{error}; ask again in {wait} s", retry_after_seconds=wait)
