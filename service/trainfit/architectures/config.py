"""Typed reading of a config.json, where absent and null are two different things."""

import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from pydantic import ValidationError

from trainfit.errors import TrainfitError

MISSING: Final[Any] = object()


class ConfigError(TrainfitError, ValueError):
    """A config.json does not hold what its architecture needs; `key` is a JSON Pointer into it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message


class UnsupportedModelTypeError(ConfigError):
    """No parser knows this `model_type`; `path` leads to the section that names it."""

    def __init__(self, model_type: str, path: str = "") -> None:
        super().__init__(
            f"{path}/model_type",
            f"the architecture {model_type[:64]!r} is not supported; "
            "describe it with model.spec (Megatron's TransformerConfig names)",
        )
        self.model_type = model_type


@dataclass(frozen=True, slots=True)
class ConfigReading:
    """What parsers read of a config.json, by JSON Pointer: values, given or defaults of a class,
    and the keys whose value was given under another name.
    """

    values: dict[str, Any] = field(default_factory=dict)
    aliased: set[str] = field(default_factory=set)

    def defaulted(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Values that were read and are not in the document, in the order of their pointers."""
        return {
            pointer: value
            for pointer, value in sorted(self.values.items())
            if value is not None and pointer not in self.aliased and not _has(document, pointer)
        }


_READING: ContextVar[ConfigReading | None] = ContextVar("reading", default=None)


@contextmanager
def reading() -> Iterator[ConfigReading]:
    """Note what is read of every config.json meanwhile."""
    noted = ConfigReading()
    token = _READING.set(noted)
    try:
        yield noted
    finally:
        _READING.reset(token)


def _has(document: Any, pointer: str) -> bool:
    for key in pointer.split("/")[1:]:
        if not isinstance(document, Mapping) or key not in document:
            return False
        document = document[key]
    return True


class Config:
    """A config.json with the path that leads to it, for messages that point at the key.

    Each getter takes the default that the model's class has for an absent key. Without one, an
    absent key is an error. A null is an error too, except for the `optional_` getters, which
    return it as None.
    """

    def __init__(self, values: Mapping[str, Any], path: builtins.str = "") -> None:
        self.values = values
        self.path = path

    def __contains__(self, key: builtins.str) -> builtins.bool:
        return key in self.values

    def with_defaults(self, defaults: Mapping[str, Any], **aliases: builtins.str) -> "Config":
        """This config over a class's defaults: an absent key takes its default, a null stays null.

        `aliases` are the other names that the class accepts: `num_experts="n_routed_experts"`.
        A value given under its alias wins, as it does in transformers.
        """
        aliased = {
            key: self.values[alias] for alias, key in aliases.items() if alias in self.values
        }
        if (noted := _READING.get()) is not None:
            noted.aliased.update(f"{self.path}/{key}" for key in aliased)
        return Config({**defaults, **self.values, **aliased}, self.path)

    def with_derived(self, **values: Any) -> "Config":
        """This config with values that follow from others: they stand in no document, and are no
        defaults either.
        """
        if (noted := _READING.get()) is not None:
            noted.aliased.update(f"{self.path}/{key}" for key in values)
        return Config({**self.values, **values}, self.path)

    def error(self, key: builtins.str, message: builtins.str) -> ConfigError:
        return ConfigError(f"{self.path}/{key}", message)

    def get(self, key: builtins.str, default: Any = None) -> Any:
        """The raw value; `default` where the key is absent (not where it is null)."""
        return self.values.get(key, default)

    def int(self, key: builtins.str, default: Any = MISSING) -> builtins.int:
        value = self.optional_int(key, default)
        if value is None:
            raise self.error(key, "must be an integer, not null")
        return value

    def optional_int(self, key: builtins.str, default: Any = None) -> builtins.int | None:
        value = self._value(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise self.error(key, "must be an integer")
        return value

    def bool(self, key: builtins.str, default: Any = MISSING) -> builtins.bool:
        value = self._value(key, default)
        if value is None and default is not MISSING:
            value = default
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def float(self, key: builtins.str, default: Any = MISSING) -> builtins.float:
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.error(key, "must be a number")
        return float(value)

    def str(self, key: builtins.str, default: Any = MISSING) -> builtins.str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def list(self, key: builtins.str, default: Any = MISSING) -> Sequence[Any]:
        value = self._value(key, default)
        if not isinstance(value, list | tuple):
            raise self.error(key, "must be a list")
        return value

    def section(self, key: builtins.str, default: Any = MISSING) -> "Config":
        value = self._value(key, default)
        if not isinstance(value, Mapping):
            raise self.error(key, "must be an object")
        return Config(value, f"{self.path}/{key}")

    def sections(self, key: builtins.str) -> Sequence["Config"]:
        """The objects of a list."""
        entries = {str(index): entry for index, entry in enumerate(self.list(key))}
        listed = Config(entries, f"{self.path}/{key}")
        return [listed.section(index) for index in entries]

    def _value(self, key: builtins.str, default: Any) -> Any:
        value = self.values.get(key, default)
        if value is MISSING:
            raise self.error(key, "is needed for this architecture and missing")
        if (noted := _READING.get()) is not None:
            noted.values[f"{self.path}/{key}"] = value
        return value


@contextmanager
def refused_dimensions() -> Iterator[None]:
    """Turn what a ModelSpec refuses, and sizes that no arithmetic takes, into a ConfigError."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"the dimensions do not make a model: {where}: {first['msg']}"
        raise ConfigError("", message) from None
    except (ZeroDivisionError, OverflowError):
        raise ConfigError("", "the dimensions do not make a model") from None
