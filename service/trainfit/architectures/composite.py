"""Composite types: a text model, whose own family reads its section, and towers that feed it."""

from collections.abc import Mapping
from typing import Any

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import output_layer
from trainfit.architectures.registry import parser_of
from trainfit.specs.architecture import ModelSpec, OutputLayer
from trainfit.specs.encoder import Encoder

MAX_DEPTH = 3
"""Sections within sections; no class has more."""


def section(config: Config, key: str, defaults: Mapping[str, Any] | None = None) -> Config:
    """A section; absent or null it is what the class builds then, from `defaults`."""
    if config.path.count("/") >= MAX_DEPTH:
        raise config.error(key, "is nested too deeply")
    if config.get(key) is None:
        return Config(defaults or {}, f"{config.path}/{key}")
    return config.section(key)


def optional_section(config: Config, key: str) -> Config | None:
    """A section that a model may lack."""
    return None if config.get(key) is None else config.section(key)


def auto_section(
    config: Config, key: str, model_type: str, defaults: Mapping[str, Any] | None = None
) -> Config:
    """A section that names its own type, `model_type` where it does not."""
    return section(config, key, defaults).with_defaults({"model_type": model_type})


def text_spec(
    config: Config,
    model_type: str,
    defaults: Mapping[str, Any] | None = None,
    *,
    fill: bool = False,
    key: str = "text_config",
) -> ModelSpec:
    """The text model of a class that takes any; `model_type` where the section names none.

    `defaults` stand for a section that is absent; with `fill` also for keys that a given section
    leaves out.
    """
    text = auto_section(config, key, model_type, defaults)
    if fill:
        text = text.with_defaults(defaults or {})
    spec = parser_of(text.str("model_type"), text.path)(text)
    if spec.encoder_parameters:
        raise text.error("model_type", "must be that of a text model")
    return spec


def own_text_spec(config: Config, model_type: str, *, key: str = "text_config") -> ModelSpec:
    """The text model of a class with one of its own, whatever type the section names."""
    return _read_as(section(config, key), model_type)


def flat_text_spec(config: Config, model_type: str) -> ModelSpec:
    """As `own_text_spec`, where early configs hold the text's keys beside the sections."""
    flat = config.get("text_config") is None
    return _read_as(config if flat else config.section("text_config"), model_type)


def composite(
    config: Config,
    text: ModelSpec,
    encoder_parameters: int,
    *,
    tied: bool | None = False,
    promoted: bool = False,
    frozen: int = 0,
    projector: int | None = None,
    encoder: Encoder | None = None,
) -> ModelSpec:
    """The whole model, whose head has no bias. Whether it is tied is for the outer config to say.

    `tied` is the class's default, None where it never ties. Before version 5, transformers asked
    the text section, so a config of that time that says nothing itself means what its text
    section means. `promoted` classes are tied also when only the text section is. Of the encoder's
    parameters `frozen` ones are never trained, and those of the `projector` may be known, and so
    may the sizes of the `encoder`.
    """
    own = text.output_layer
    if tied is not None and _precedes_version_5(config):
        tied = own.tied
    outer = config.with_derived(hidden_size=own.width)
    head = output_layer(outer, own.rows, tied=tied, bias=False)
    if promoted and own.tied and not head.scores_labels:
        head = head.model_copy(update={"tied": True})
    whole = _assembled(config, text, encoder_parameters, frozen=frozen, output_layer=head)
    return whole.model_copy(update={"projector_parameters": projector, "encoder": encoder})


def whole_text_composite(config: Config, text: ModelSpec, encoder_parameters: int) -> ModelSpec:
    """The whole model where the text part brings its head along and ties it by its own section."""
    return _assembled(config, text, encoder_parameters)


def _assembled(
    config: Config, text: ModelSpec, encoders: int, *, frozen: int = 0, **changes: OutputLayer
) -> ModelSpec:
    parts: dict[str, Any] = dict(text) | changes
    parts["model_type"] = config.str("model_type")
    parts["encoder_parameters"] = encoders
    parts["encoder_frozen_parameters"] = frozen
    return ModelSpec(**parts)


def _read_as(text: Config, model_type: str) -> ModelSpec:
    return parser_of(model_type)(Config({**text.values, "model_type": model_type}, text.path))


def _precedes_version_5(config: Config) -> bool:
    return str(config.get("transformers_version", "")).startswith("4.")
