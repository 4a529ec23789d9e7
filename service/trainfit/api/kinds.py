"""The kinds of problems: what /problems/{slug} explains, and which may be answered where."""

from dataclasses import dataclass

MAX_ERRORS = 32
"""More wrong fields than these are not listed: nobody reads them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem; /problems/{slug} explains it in the words of `meaning`."""

    slug: str
    status: int
    title: str
    meaning: str


INVALID_JSON = Kind(
    "invalid-json",
    400,
    "The body is not JSON",
    "The body could not be read as one JSON document (RFC 8259) in UTF-8. NaN, Infinity, numbers "
    "out of range, a name given twice in one object and very deep nesting are refused too.",
)
INVALID_REVIEW = Kind(
    "invalid-review",
    400,
    "The body is not an AdmissionReview",
    "The body is JSON but not an AdmissionReview of admission.k8s.io/v1 with a request: the "
    "Kubernetes API server sends one to a webhook. What is wrong with an object in it is no "
    "problem but a warning in the answer.",
)
UNAUTHENTICATED = Kind(
    "unauthenticated",
    401,
    "A key is needed",
    "The service is set to answer callers with a key only (TRAINFIT_API_KEYS). Send the key that "
    "its operator gave you as Authorization: Bearer KEY.",
)
GATED_MODEL = Kind(
    "gated-model",
    403,
    "The model is not open to everyone",
    "The Hub shows this model only to those who were granted access. A request that has a token of "
    "theirs in its X-HF-Token header is answered; the token is used for that request alone.",
)
MODEL_NOT_ALLOWED = Kind(
    "model-not-allowed",
    403,
    "The organisation is not on the list",
    "The operator of this service lets it look up the models of some organisations only "
    "(TRAINFIT_HUB_ORGANISATIONS). The contents of any config.json can be sent as model.hf_config.",
)
NOT_FOUND = Kind(
    "not-found",
    404,
    "Nothing is here",
    "The service has no such path. /docs lists the operations; paths end without a slash.",
)
METHOD_NOT_ALLOWED = Kind(
    "method-not-allowed",
    405,
    "The path has no such method",
    "The path exists, but not with this method. The Allow header names those that it has.",
)
SLOW_BODY = Kind(
    "slow-body",
    408,
    "The body came too slowly",
    "The whole body did not arrive in the time that the service gives it "
    "(TRAINFIT_BODY_TIMEOUT_SECONDS). The connection is closed.",
)
VERSION_NOT_SERVED = Kind(
    "version-not-served",
    409,
    "The version is not served",
    "The job asks to be answered by one version of the estimator, and this service is another. "
    "Each answer names the version that made it.",
)
TOO_LARGE = Kind(
    "too-large",
    413,
    "The body is too large",
    "The body is longer than the service reads (TRAINFIT_MAX_BODY_BYTES), or has more values than "
    "any job needs.",
)
UNSUPPORTED_MEDIA_TYPE = Kind(
    "unsupported-media-type",
    415,
    "The body is of a wrong media type",
    "A request is sent as Content-Type: application/json, without a Content-Encoding.",
)
INVALID_JOB = Kind(
    "invalid-job",
    422,
    "The job has fields that are wrong",
    "The body is JSON but not what the operation takes: a field is unknown, missing, of a wrong "
    f"type or out of bounds. Each error points at its field; at most {MAX_ERRORS} are listed.",
)
INVALID_PARAMETER = Kind(
    "invalid-parameter",
    422,
    "A parameter is wrong",
    "A query parameter is unknown or has a value that it cannot take, or the X-HF-Token header "
    "holds what is no token.",
)
INVALID_LAUNCH = Kind(
    "invalid-launch",
    422,
    "The launch cannot be read as a job",
    "A file or the command line of a launch is of no format that is read, or a value in it is "
    "wrong, or what decides memory is said nowhere. Each error names the file and the line; what a "
    "launch leaves open can be given in its overrides, a part of a job.",
)
INVALID_LAYOUT = Kind(
    "invalid-layout",
    422,
    "The layout does not hold together",
    "Every field is right by itself, but the sizes do not divide or the options contradict each "
    "other. Each error says what would be right; a suggestion is a JSON Patch (RFC 6902) on the "
    "job.",
)
NOT_MODELLED = Kind(
    "not-modelled",
    422,
    "The job uses what is not modelled",
    "An option changes memory in a way that the estimator does not model. It is refused by name "
    "rather than priced wrongly.",
)
TOO_COSTLY = Kind(
    "too-costly",
    422,
    "The question takes too much",
    "To read or to answer it takes more memory or processor time than the service gives one "
    "request (TRAINFIT_WORKER_MEMORY_BYTES, TRAINFIT_WORKER_CPU_SECONDS), or the answer would be "
    "longer than it sends (TRAINFIT_MAX_ANSWER_BYTES). Ask for fewer jobs at once, or leave out of "
    "a launch what does not decide memory.",
)
INVALID_PATCH = Kind(
    "invalid-patch",
    422,
    "The patch leads nowhere",
    "A path of a JSON Patch (RFC 6902) names nothing that the job has, or leads through something "
    "that is no object. What a job leaves out is added, not replaced.",
)
INVALID_MODEL = Kind(
    "invalid-model",
    422,
    "The dimensions do not make a model",
    "The model's config lacks a value that its architecture needs, or has one that is of a wrong "
    "type or contradicts another.",
)
UNSUPPORTED_MODEL = Kind(
    "unsupported-model",
    422,
    "The architecture is not supported",
    "No parser reads this model_type. A GPT-shaped architecture can be described with model.spec, "
    "in Megatron's TransformerConfig names.",
)
UNKNOWN_MODEL = Kind(
    "unknown-model",
    422,
    "The model is not known",
    "The Hub has no model of this hf_id, or hides it from who asks; or the Hub is not asked "
    "(HF_HUB_OFFLINE) and neither a cache nor the package has its config.json. GET /v1/models "
    "lists the models of the package; the contents of any config.json can be sent as "
    "model.hf_config.",
)
UNKNOWN_REVISION = Kind(
    "unknown-revision",
    422,
    "The model has no such revision",
    "The Hub has the model, but no branch, tag or commit of this name. Left out, the revision is "
    "main.",
)
RENAMED_MODEL = Kind(
    "renamed-model",
    422,
    "The model has another name now",
    "The Hub redirects this hf_id to another one. It is not followed silently, since an old name "
    "can be taken by someone else; the suggestion is the new name.",
)
MODEL_WITHOUT_CONFIG = Kind(
    "model-without-config",
    422,
    "The repository is no model of transformers",
    "The repository has no config.json: it holds GGUF files, a diffusion pipeline, a data set or "
    "code. The config.json of the model that it was made from says how large it is.",
)
ADAPTER_MODEL = Kind(
    "adapter-model",
    422,
    "The repository holds an adapter",
    "The repository has no config.json but an adapter_config.json. What an adapter takes to train "
    "depends on the model below it: ask for that model, and describe the adapter in training.peft.",
)
UNKNOWN_GPU = Kind(
    "unknown-gpu",
    422,
    "The GPU is not known",
    "The catalogue has no such name or alias. GET /v1/gpus lists them; a card that is not among "
    "them can be given by its memory_bytes.",
)
RATE_LIMITED = Kind(
    "rate-limited",
    429,
    "Too many requests",
    "The caller, known by its key or else by its address, has asked as often as it may for now "
    "(TRAINFIT_RATE_LIMIT). Ask again after the seconds that the Retry-After header gives; the "
    "RateLimit header of every answer tells how many requests are left.",
)
INTERNAL_ERROR = Kind(
    "internal-error",
    500,
    "The service failed",
    "A fault of the service, not of the request. The log has it under the request id that ends "
    "the problem's instance.",
)
HUB_ANSWER = Kind(
    "hub-answer",
    502,
    "The Hub answered with something else",
    "What the Hub, or the mirror at HF_ENDPOINT, sent is no config.json: a page, a redirect to "
    "another host, a file that is cut off, too large or not JSON.",
)
HUB_UNAVAILABLE = Kind(
    "hub-unavailable",
    503,
    "The Hub does not answer",
    "The Hub cannot be reached or fails, and no cache has this model. The Retry-After header says "
    "when to ask again; the contents of a config.json can be sent as model.hf_config at any time.",
)
HUB_RATE_LIMITED = Kind(
    "hub-rate-limited",
    503,
    "The Hub takes no more requests for now",
    "The Hub limits how often it may be asked, and no cache has this model. The Retry-After header "
    "says when to ask again.",
)
HUB_TIMEOUT = Kind(
    "hub-timeout",
    504,
    "The Hub took too long",
    "The Hub did not answer within TRAINFIT_HUB_TIMEOUT_SECONDS, and no cache has this model. "
    "What it answers later is kept, so that asking again may help.",
)
OVERLOADED = Kind(
    "overloaded",
    503,
    "The service is busy",
    "As many requests as the service takes at once are under way (TRAINFIT_MAX_CONCURRENT_REQUESTS)"
    ". Ask again after the seconds that the Retry-After header gives.",
)

TIMED_OUT = Kind(
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
        (NOT_FOUND, METHOD_NOT_ALLOWED, INVALID_PATCH, INVALID_REVIEW, *JOB_PROBLEMS),
        key=lambda kind: kind.status,
    )
}
"""Every kind by its slug, in the order of their statuses."""
