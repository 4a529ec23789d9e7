"""From a job to its estimate: the one path, shared by HTTP and the terminal."""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any

from trainfit import __version__
from trainfit.architectures.megatron import from_transformer_config
from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config, close_bundled_ids
from trainfit.catalog.gpus import find_gpu
from trainfit.digest import catalogue_version, normalised, request_digest
from trainfit.estimator.estimate import estimate
from trainfit.estimator.results import Estimate
from trainfit.resolve.job import NO_CARD, resolve
from trainfit.resolve.plan import Card, Plan, Source
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.gpu import CustomGpu, Gpu
from trainfit.specs.job import AS_JOB, Job
from trainfit.specs.model import Model


class UnknownModelError(ValueError):
    """No config.json is bundled for this Hub id; `close_matches` are ids that nearly read alike."""

    def __init__(self, close_matches: tuple[str, ...]) -> None:
        hint = f"; close: {', '.join(close_matches)}" if close_matches else ""
        super().__init__(f"no config.json of this model is bundled; send it as hf_config{hint}")
        self.close_matches = close_matches


class VersionNotServedError(ValueError):
    """The job is to be answered by a version of the estimator that is not this one."""

    def __init__(self) -> None:
        super().__init__(f"the version that is served is {__version__}")


@dataclass(frozen=True, slots=True)
class EstimateAnswer(Estimate):
    """An estimate with what it is a function of. Equal digests have equal answers.

    `request_digest` is a SHA-256 of what was asked of the normalised `job`, the revision of its
    model and both versions; `job` is the request with every default in its place.
    """

    catalogue_version: str
    request_digest: str
    job: Annotated[dict[str, Any], AS_JOB]


def answer(job: Job, *, activations: bool = True) -> EstimateAnswer:
    """The estimate of a job, as it is sent. Errors are those of `plan_of`."""
    plan = plan_of(job)
    return signed(job, plan, estimate(plan, activations=activations), activations=activations)


def signed(job: Job, plan: Plan, result: Estimate, *, activations: bool) -> EstimateAnswer:
    """An estimate, as it is sent."""
    document = normalised(job, plan)
    options = {"activations": activations}
    return EstimateAnswer(
        **fields_of(result),
        catalogue_version=catalogue_version(),
        request_digest=request_digest("estimate", document, options, plan.source.revision),
        job=document,
    )


def price(job: Job) -> Estimate:
    """The estimate of a job, for a decision. Errors are those of `plan_of`."""
    return estimate(plan_of(job))


def fields_of(result: Any) -> dict[str, Any]:
    """The fields of a dataclass by their names, each as it is."""
    return {field.name: getattr(result, field.name) for field in fields(result)}


def plan_of(job: Job) -> Plan:
    """The Plan of a job.

    Raises VersionNotServedError, UnknownModelError, ConfigError, UnknownGpuError and RefusedError.
    """
    if job.estimator_version not in (None, __version__):
        raise VersionNotServedError
    model, source = resolve_model(job.model)
    return resolve(job, model, source, card_of(job.gpu))


def source_of(model: Model) -> Source | None:
    """What the Hub id of a model stands for, if it has one. Raises UnknownModelError."""
    return resolve_model(model)[1] if model.hf_id is not None else None


def resolve_model(model: Model) -> tuple[ModelSpec, Source]:
    """The dimensions of a model and where they come from."""
    if model.spec is not None:
        return from_transformer_config(model.spec), Source(model.spec.name, None, "spec")
    if model.hf_config is not None:
        return parse_config(model.hf_config), Source(None, None, "request")
    assert model.hf_id is not None
    spec, name = _bundled_model(model.hf_id)
    return spec, Source(name, None, "bundled")


@lru_cache(maxsize=512)
def _bundled_model(hf_id: str) -> tuple[ModelSpec, str]:
    bundled = bundled_config(hf_id)
    if bundled is None:
        raise UnknownModelError(close_bundled_ids(hf_id))
    return parse_config(bundled.config, bundled.hf_id), bundled.hf_id


def card_of(gpu: Gpu | None) -> Card:
    """The card as the catalogue knows it, or as the caller describes it."""
    if gpu is None:
        return NO_CARD
    if isinstance(gpu, CustomGpu):
        return Card(gpu.name, gpu.memory_bytes, "")
    card = find_gpu(gpu)
    return Card(card.name, card.reported_bytes, card.compute_capability or "")
