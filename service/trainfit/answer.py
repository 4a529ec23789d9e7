"""From a job to its estimate: the one path, shared by HTTP and the terminal."""

from functools import lru_cache

from trainfit.architectures.megatron import from_transformer_config
from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config, close_bundled_ids
from trainfit.catalog.gpus import find_gpu
from trainfit.estimator.estimate import estimate
from trainfit.estimator.results import Estimate
from trainfit.resolve.job import NO_CARD, resolve
from trainfit.resolve.plan import Card, Plan, Source
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.gpu import CustomGpu, Gpu
from trainfit.specs.job import Job
from trainfit.specs.model import Model


class UnknownModelError(ValueError):
    """No config.json is bundled for this Hub id; `close_matches` are ids that nearly read alike."""

    def __init__(self, close_matches: tuple[str, ...]) -> None:
        hint = f"; close: {', '.join(close_matches)}" if close_matches else ""
        super().__init__(f"no config.json of this model is bundled; send it as hf_config{hint}")
        self.close_matches = close_matches


def answer(job: Job, *, activations: bool = True) -> Estimate:
    """The estimate of a job. Errors are those of `plan_of`."""
    return estimate(plan_of(job), activations=activations)


def plan_of(job: Job) -> Plan:
    """The Plan of a job.

    Raises UnknownModelError, ConfigError, UnknownGpuError and RefusedError.
    """
    model, source = resolve_model(job.model)
    return resolve(job, model, source, card_of(job.gpu))


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
