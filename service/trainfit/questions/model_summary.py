"""What a model id resolves to: its commit, its dimensions, and what its config leaves open."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Literal

from trainfit.architectures.config import reading
from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config
from trainfit.estimator.parameters import count_parameters
from trainfit.estimator.results import Parameters
from trainfit.questions.dimensions import ResolvedModel
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.model import Model


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that are alike: how many, and the blocks of one in their order."""

    layers: int
    blocks: list[str]


@dataclass(frozen=True, slots=True)
class Architecture:
    """The dimensions that a config.json was read as. Layers are those without MTP."""

    model_type: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    max_position_embeddings: int | None
    tied_embeddings: bool
    mtp_layers: int
    layer_kinds: list[LayerKind]
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class DefaultedKey:
    """A key that the config.json leaves out, and the value that its architecture has for it."""

    pointer: str
    value: Any


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model as it is resolved now.

    `revision` is a commit of the Hub, null where the Hub was not asked. `age_seconds` is how long
    ago the Hub confirmed it; null for a commit, which stays what it is. `stale`: that is too long
    ago to take it for granted. `quantization` is the method in which the weights are published;
    the dimensions are those of the model without it. `config` is the config.json that was read,
    null of a spec.
    """

    name: str | None
    source: Literal["hub", "bundled", "request", "spec"]
    revision: str | None
    stale: bool
    age_seconds: int | None
    dtype: str | None
    quantization: str | None
    architecture: Architecture
    defaulted: list[DefaultedKey]
    config: dict[str, Any] | None


def summarise(model: Model, resolved: ResolvedModel) -> ModelSummary:
    """What a model was resolved to. Raises ConfigError."""
    config = _config(model, resolved)
    source, found = resolved.source, resolved.found
    branch = found is not None and found.ref.commit != model.revision
    return ModelSummary(
        name=source.name,
        source=source.source,
        revision=source.revision,
        stale=source.stale,
        age_seconds=int(time() - found.ref.checked_at) if found is not None and branch else None,
        dtype=_text(config.get("dtype", config.get("torch_dtype"))),
        quantization=_quantization(config),
        architecture=_architecture(resolved.spec),
        defaulted=_defaulted(config) if model.spec is None else [],
        config=dict(config) if model.spec is None else None,
    )


def _config(model: Model, resolved: ResolvedModel) -> Mapping[str, Any]:
    if resolved.found is not None:
        return resolved.found.config.values
    bundled = bundled_config(model.hf_id) if model.hf_id is not None else None
    return bundled.config if bundled is not None else model.hf_config or {}


def _architecture(spec: ModelSpec) -> Architecture:
    counts = count_parameters(spec)
    repeats = Counter(spec.pattern)
    return Architecture(
        model_type=spec.model_type,
        num_layers=spec.num_layers,
        hidden_size=spec.hidden_size,
        vocab_size=spec.embedding.rows,
        max_position_embeddings=spec.max_position_embeddings,
        tied_embeddings=spec.output_layer.tied,
        mtp_layers=spec.mtp.num_layers if spec.mtp is not None else 0,
        layer_kinds=[
            LayerKind(
                repeats[index],
                [block.kind for block in kind.blocks],
            )
            for index, kind in enumerate(spec.layer_kinds)
        ],
        parameters=Parameters(
            total=counts.total,
            total_with_mtp=counts.total + counts.mtp,
            active=counts.active,
            trainable=counts.trainable,
            by_bucket=dict(counts.by_bucket),
        ),
    )


def _defaulted(config: Mapping[str, Any]) -> list[DefaultedKey]:
    with reading() as noted:
        parse_config(config)
    return [DefaultedKey(*each) for each in noted.defaulted(config).items()]


def _quantization(config: Mapping[str, Any]) -> str | None:
    section = config.get("quantization_config")
    return _text(section.get("quant_method")) if isinstance(section, Mapping) else None


def _text(value: Any) -> str | None:
    return value[:64] if isinstance(value, str) else None
