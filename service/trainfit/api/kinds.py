"""The kinds of problems: what /problems/{slug} explains, and which may be answered where."""

from trainfit.questions.kinds import (
    ADAPTER_MODEL,
    GATED_MODEL,
    HUB_ANSWER,
    HUB_RATE_LIMITED,
    HUB_TIMEOUT,
    HUB_UNAVAILABLE,
    INTERNAL_ERROR,
    INVALID_JOB,
    INVALID_JSON,
    INVALID_LAUNCH,
    INVALID_LAYOUT,
    INVALID_MODEL,
    INVALID_PATCH,
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

INVALID_REVIEW = ProblemKind(
    "invalid-review",
    400,
    "The body is not an AdmissionReview",
    "The body is JSON but not an AdmissionReview of admission.k8s.io/v1 with a request: the "
    "Kubernetes API server sends one to a webhook. What is wrong with an object in it is no "
    "problem but a warning in the answer.",
)
INVALID_MESSAGE = ProblemKind(
    "invalid-message",
    400,
    "The body is not a message",
    "The body is JSON but not one message of the Model Context Protocol, an object: a batch of "
    "them is not taken.",
)
UNAUTHENTICATED = ProblemKind(
    "unauthenticated",
    401,
    "A key is needed",
    "The service is set to answer callers with a key only (TRAINFIT_API_KEYS). Send the key that "
    "its operator gave you as Authorization: Bearer KEY.",
)
ORIGIN_NOT_ALLOWED = ProblemKind(
    "origin-not-allowed",
    403,
    "The page may not ask",
    "A page in a browser has sent a message of the Model Context Protocol, and its origin is not "
    "among those whose pages may (TRAINFIT_CORS_ORIGINS).",
)
NOT_FOUND = ProblemKind(
    "not-found",
    404,
    "Nothing is here",
    "The service has no such path. /docs lists the operations; paths end without a slash.",
)
METHOD_NOT_ALLOWED = ProblemKind(
    "method-not-allowed",
    405,
    "The path has no such method",
    "The path exists, but not with this method. The Allow header names those that it has.",
)
SLOW_BODY = ProblemKind(
    "slow-body",
    408,
    "The body came too slowly",
    "The whole body did not arrive in the time that the service gives it "
    "(TRAINFIT_BODY_TIMEOUT_SECONDS). The connection is closed.",
)
TOO_LARGE = ProblemKind(
    "too-large",
    413,
    "The body is too large",
    "The body is longer than the service reads (TRAINFIT_MAX_BODY_BYTES), or has more values than "
    "any job needs.",
)
UNSUPPORTED_MEDIA_TYPE = ProblemKind(
    "unsupported-media-type",
    415,
    "The body is of a wrong media type",
    "A request is sent as Content-Type: application/json, without a Content-Encoding.",
)
INVALID_PARAMETER = ProblemKind(
    "invalid-parameter",
    422,
    "A parameter is wrong",
    "A query parameter is unknown or has a value that it cannot take, or the X-HF-Token header "
    "holds what is no token.",
)
TOO_COSTLY = ProblemKind(
    "too-costly",
    422,
    "The question takes too much",
    "To read or to answer it takes more memory or processor time than the service gives one "
    "request (TRAINFIT_WORKER_MEMORY_BYTES, TRAINFIT_WORKER_CPU_SECONDS), or the answer would be "
    "longer than it sends (TRAINFIT_MAX_ANSWER_BYTES). Ask for fewer jobs at once, or leave out of "
    "a launch what does not decide memory.",
)
RATE_LIMITED = ProblemKind(
    "rate-limited",
    429,
    "Too many requests",
    "The caller, known by its key or else by its address, has asked as often as it may for now "
    "(TRAINFIT_RATE_LIMIT). Ask again after the seconds that the Retry-After header gives; the "
    "RateLimit header of every answer tells how many requests are left.",
)
OVERLOADED = ProblemKind(
    "overloaded",
    503,
    "The service is busy",
    "As many requests as the service takes at once are under way (TRAINFIT_MAX_CONCURRENT_REQUESTS)"
    ". Ask again after the seconds that the Retry-After header gives.",
)
TIMED_OUT = ProblemKind(
    "timed-out",
    503,
    "The answer took too long",
    "There was no answer in the time that the service gives a request "
    "(TRAINFIT_REQUEST_TIMEOUT_SECONDS). Ask again after the seconds that the Retry-After header "
    "gives, or for fewer jobs at once.",
)
OPERATION_PROBLEMS = (UNAUTHENTICATED, RATE_LIMITED, INTERNAL_ERROR, OVERLOADED, TIMED_OUT)
"""What may be wrong with any request to an operation."""
BODY_PROBLEMS = (
    *OPERATION_PROBLEMS,
    INVALID_JSON,
    SLOW_BODY,
    TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    INVALID_JOB,
    INVALID_PARAMETER,
    TOO_COSTLY,
)
"""What may be wrong with any request that has a body."""
REVIEW_PROBLEMS = (
    *OPERATION_PROBLEMS,
    INVALID_JSON,
    INVALID_REVIEW,
    SLOW_BODY,
    TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
)
"""What may be wrong with a request that sends an AdmissionReview."""
MODEL_PROBLEMS = (
    GATED_MODEL,
    MODEL_NOT_ALLOWED,
    INVALID_MODEL,
    UNSUPPORTED_MODEL,
    UNKNOWN_MODEL,
    UNKNOWN_REVISION,
    RENAMED_MODEL,
    MODEL_WITHOUT_CONFIG,
    ADAPTER_MODEL,
    HUB_ANSWER,
    HUB_UNAVAILABLE,
    HUB_RATE_LIMITED,
    HUB_TIMEOUT,
)
"""What may be wrong with a model."""
JOB_PROBLEMS = (
    *BODY_PROBLEMS,
    INVALID_LAUNCH,
    VERSION_NOT_SERVED,
    INVALID_LAYOUT,
    NOT_MODELLED,
    *MODEL_PROBLEMS,
    UNKNOWN_GPU,
)
"""What may be wrong with a request that sends one job."""
KINDS = {
    kind.slug: kind
    for kind in sorted(
        (
            NOT_FOUND,
            METHOD_NOT_ALLOWED,
            INVALID_MESSAGE,
            INVALID_PATCH,
            INVALID_REVIEW,
            ORIGIN_NOT_ALLOWED,
            *JOB_PROBLEMS,
        ),
        key=lambda kind: kind.status,
    )
}
"""Every kind by its slug, in the order of their statuses."""
