"""A config.json as it is priced: its dimensions, what it leaves open, what is odd about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainfit.architectures import coherence
from trainfit.architectures.config import Config, reading
from trainfit.architectures.registry import parse_config
from trainfit.specs.architecture import ModelSpec


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """`left_open` are values of the model's class by JSON Pointer, where the config has no key for
    them; `remarks` tell what it says that the dimensions do not follow.
    """

    spec: ModelSpec
    left_open: Mapping[str, Any]
    remarks: tuple[str, ...]


def read_config(values: Mapping[str, Any], name: str | None = None) -> ReadConfig:
    """A config.json that can be run. Raises what `parse_config` raises, and ConfigError for
    dimensions that its class builds and cannot run.
    """
    with reading() as noted:
        spec = parse_config(values, name)
    config, left_open = Config(values), noted.defaulted(values)
    coherence.check(config, spec)
    return ReadConfig(spec, left_open, tuple(coherence.remarks(config, spec)))
