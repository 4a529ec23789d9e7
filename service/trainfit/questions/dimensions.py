"""From what a caller names as a model to its dimensions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

from trainfit.architectures.megatron import from_transformer_config
from trainfit.architectures.read import ReadConfig, read_config
from trainfit.catalog.configs import bundled_config, close_bundled_ids
from trainfit.errors import TrainfitError
from trainfit.hub.entries import MAIN, Found, HubConfig
from trainfit.resolve.plan import Default, ModelSource
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.model import Model


class UnknownModelError(TrainfitError, ValueError):
    """There is no config.json of this Hub id; `close_matches` are ids that nearly read alike."""

    def __init__(self, why: str, close_matches: tuple[str, ...] = ()) -> None:
        hint = f"; close: {', '.join(close_matches)}" if close_matches else ""
        super().__init__(f"{why}; send it as hf_config{hint}")
        self.close_matches = close_matches


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The dimensions of a model and where they come from; `found` is what the Hub has of it.

    `defaults` are values that the caller's own config.json leaves to the model's class, `remarks`
    what else the config says that the reader of an answer should know.
    """

    spec: ModelSpec
    source: ModelSource
    found: Found | None = None
    defaults: tuple[Default, ...] = ()
    remarks: tuple[str, ...] = ()


IN_CONFIG = "/model/hf_config"
"""Where a caller's config.json stands in a job."""

Find = Callable[[Model], ResolvedModel]
"""What a model was resolved to. Raises UnknownModelError, ConfigError and HubError."""


def from_package(model: Model) -> ResolvedModel:
    """A model that is described by the caller or bundled with the package.

    Raises UnknownModelError and ConfigError.
    """
    if model.spec is not None:
        source = ModelSource(model.spec.name, None, "spec")
        return ResolvedModel(from_transformer_config(model.spec), source)
    if model.hf_config is not None:
        return _given(read_config(model.hf_config))
    bundled = bundled_model(model)
    if bundled is None:
        assert model.hf_id is not None
        why = "no config.json of this model is bundled"
        if model.revision is not None and _bundled(model.hf_id) is not None:
            why = "the config.json that is bundled is that of the main branch"
        raise UnknownModelError(why, close_bundled_ids(model.hf_id))
    return bundled


def bundled_model(model: Model) -> ResolvedModel | None:
    """The bundled model of an id, if there is one and no other revision than main is asked for."""
    if model.hf_id is None or model.revision not in (None, MAIN):
        return None
    return _bundled(model.hf_id)


def from_hub(found: Found) -> ResolvedModel:
    """A model that the Hub has. Raises ConfigError."""
    read = _read.get(found.config)
    if read is None:
        read = _read[found.config] = read_config(found.config.values, found.ref.name)
    source = ModelSource(found.ref.name, found.ref.commit, "hub", stale=found.stale)
    return ResolvedModel(read.spec, source, found, remarks=read.remarks)


_read: WeakKeyDictionary[HubConfig, ReadConfig] = WeakKeyDictionary()
"""Kept for as long as the config itself is."""


@lru_cache(maxsize=512)
def _bundled(hf_id: str) -> ResolvedModel | None:
    bundled = bundled_config(hf_id)
    if bundled is None:
        return None
    read = read_config(bundled.config, bundled.hf_id)
    source = ModelSource(bundled.hf_id, None, "bundled")
    return ResolvedModel(read.spec, source, remarks=read.remarks)


def _given(read: ReadConfig) -> ResolvedModel:
    """A config.json that the caller sent, with all that it leaves open."""
    why = f"what the class of {read.spec.model_type} has where the key is absent"
    defaults = tuple(
        Default(f"{IN_CONFIG}{pointer}", value, "framework", why)
        for pointer, value in read.left_open.items()
    )
    return ResolvedModel(
        read.spec, ModelSource(None, None, "request"), defaults=defaults, remarks=read.remarks
    )
