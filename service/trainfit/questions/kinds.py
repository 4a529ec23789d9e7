"""The kinds of problems that a question can have, whoever asks it."""

from dataclasses import dataclass

MAX_ERRORS = 32
"""More wrong fields than these are not listed: nobody reads them."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem; /problems/{slug} explains it in the words of `meaning`."""

    slug: str
    status: int
    title: str
    meaning: str


INVALID_JSON = ProblemKind(
    "invalid-json",
    400,
    "The body is not JSON",
    "The body could not be read as one JSON document (RFC 8259) in UTF-8. NaN, Infinity, numbers "
    "out of range, a name given twice in one object and very deep nesting are refused too.",
)
GATED_MODEL = ProblemKind(
    "gated-model",
    403,
    "The model is not open to everyone",
    "The Hub shows this model only to those who were granted access. A request that has a token of "
    "theirs in its X-HF-Token header is answered; the token is used for that request alone.",
)
MODEL_NOT_ALLOWED = ProblemKind(
    "model-not-allowed",
    403,
    "The organisation is not on the list",
    "The operator of this service lets it look up the models of some organisations only "
    "(TRAINFIT_HUB_ORGANISATIONS). The contents of any config.json can be sent as model.hf_config.",
)
VERSION_NOT_SERVED = ProblemKind(
    "version-not-served",
    409,
    "The version is not served",
    "The job asks to be answered by one version of the estimator, and this service is another. "
    "Each answer names the version that made it.",
)
INVALID_JOB = ProblemKind(
    "invalid-job",
    422,
    "The job has fields that are wrong",
    "The body is JSON but not what the operation takes: a field is unknown, missing, of a wrong "
    f"type or out of bounds. Each error points at its field; at most {MAX_ERRORS} are listed.",
)
INVALID_LAUNCH = ProblemKind(
    "invalid-launch",
    422,
    "The launch cannot be read as a job",
    "A file or the command line of a launch is of no format that is read, or a value in it is "
    "wrong, or what decides memory is said nowhere. Each error names the file and the line; what a "
    "launch leaves open can be given in its overrides, a part of a job.",
)
INVALID_LAYOUT = ProblemKind(
    "invalid-layout",
    422,
    "The layout is inconsistent",
    "Every field is right by itself, but the sizes do not divide or the options contradict each "
    "other. Each error says what would be right; a suggestion is a JSON Patch (RFC 6902) on the "
    "job.",
)
NOT_MODELLED = ProblemKind(
    "not-modelled",
    422,
    "The job uses what is not modelled",
    "An option changes memory in a way that the estimator does not model. It is refused by name "
    "rather than priced wrongly.",
)
INVALID_PATCH = ProblemKind(
    "invalid-patch",
    422,
    "The patch leads nowhere",
    "A path of a JSON Patch (RFC 6902) names nothing that the job has, or leads through something "
    "that is no object. What a job leaves out is added, not replaced.",
)
INVALID_MODEL = ProblemKind(
    "invalid-model",
    422,
    "The dimensions do not make a model",
    "The model's config lacks a value that its architecture needs, or has one that is of a wrong "
    "type or contradicts another.",
)
UNSUPPORTED_MODEL = ProblemKind(
    "unsupported-model",
    422,
    "The architecture is not supported",
    "No parser reads this model_type. A GPT-shaped architecture can be described with model.spec, "
    "in Megatron's TransformerConfig names.",
)
UNKNOWN_MODEL = ProblemKind(
    "unknown-model",
    422,
    "The model is not known",
    "The Hub has no model of this hf_id, or hides it from who asks; or the Hub is not asked "
    "(HF_HUB_OFFLINE) and neither a cache nor the package has its config.json. GET /v1/models "
    "lists the models of the package; the contents of any config.json can be sent as "
    "model.hf_config.",
)
UNKNOWN_REVISION = ProblemKind(
    "unknown-revision",
    422,
    "The model has no such revision",
    "The Hub has the model, but no branch, tag or commit of this name. Left out, the revision is "
    "main.",
)
RENAMED_MODEL = ProblemKind(
    "renamed-model",
    422,
    "The model has another name now",
    "The Hub redirects this hf_id to another one. It is not followed silently, since an old name "
    "can be taken by someone else; the suggestion is the new name.",
)
MODEL_WITHOUT_CONFIG = ProblemKind(
    "model-without-config",
    422,
    "The repository is no model of transformers",
    "The repository has no config.json: it holds GGUF files, a diffusion pipeline, a data set or "
    "code. The config.json of the model that it was made from says how large it is.",
)
ADAPTER_MODEL = ProblemKind(
    "adapter-model",
    422,
    "The repository holds an adapter",
    "The repository has no config.json but an adapter_config.json. What an adapter takes to train "
    "depends on the model below it: ask for that model, and describe the adapter in training.peft.",
)
UNKNOWN_GPU = ProblemKind(
    "unknown-gpu",
    422,
    "The GPU is not known",
    "The catalogue has no such name or alias. GET /v1/gpus lists them; a card that is not among "
    "them can be given by its memory_bytes.",
)
INTERNAL_ERROR = ProblemKind(
    "internal-error",
    500,
    "The service failed",
    "A fault of the service, not of the request. The log has it under the request id that ends "
    "the problem's instance.",
)
HUB_ANSWER = ProblemKind(
    "hub-answer",
    502,
    "The Hub answered with something else",
    "What the Hub, or the mirror at HF_ENDPOINT, sent is no config.json: a page, a redirect to "
    "another host, a file that is cut off, too large or not JSON.",
)
HUB_UNAVAILABLE = ProblemKind(
    "hub-unavailable",
    503,
    "The Hub does not answer",
    "The Hub cannot be reached or fails, and no cache has this model. The Retry-After header says "
    "when to ask again; the contents of a config.json can be sent as model.hf_config at any time.",
)
HUB_RATE_LIMITED = ProblemKind(
    "hub-rate-limited",
    503,
    "The Hub takes no more requests for now",
    "The Hub limits how often it may be asked, and no cache has this model. The Retry-After header "
    "says when to ask again.",
)
HUB_TIMEOUT = ProblemKind(
    "hub-timeout",
    504,
    "The Hub took too long",
    "The Hub did not answer within TRAINFIT_HUB_TIMEOUT_SECONDS, and no cache has this model. "
    "What it answers later is kept, so that asking again may help.",
)
