"""Which family reads which model_type. A family is imported when one of its types is asked for."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from trainfit.architectures.config import (
    Config,
    UnsupportedModelTypeError,
    refused_dimensions,
)
from trainfit.architectures.decoder_values import read_decoder
from trainfit.architectures.families import FAMILIES
from trainfit.architectures.vocabulary import Decoder
from trainfit.specs.architecture import ModelSpec


def supported_model_types() -> tuple[str, ...]:
    """Every model_type that a config.json may name, sorted."""
    return tuple(sorted(FAMILIES))


def parser_of(model_type: str, path: str = "") -> Callable[[Config], ModelSpec]:
    """What reads a config.json, or the section at `path` of one, of this type."""
    family = FAMILIES.get(model_type)
    if family is None:
        raise UnsupportedModelTypeError(model_type, path)
    if isinstance(family.dimensions, Decoder):
        return partial(read_decoder, family.dimensions)
    module = import_module(f"trainfit.architectures.{family.dimensions}")
    parsers: Mapping[str, Callable[[Config], ModelSpec]] = module.PARSERS
    return parsers[model_type]


def parse_config(values: Mapping[str, Any], name: str | None = None) -> ModelSpec:
    """A config.json as a ModelSpec.

    Raises UnsupportedModelTypeError for a type that no family reads, ConfigError for a key that
    is missing, of a wrong type or out of bounds.
    """
    config = Config(values)
    parser = parser_of(config.str("model_type"))
    with refused_dimensions():
        spec = parser(config)
    return spec if name is None else spec.model_copy(update={"name": name})
