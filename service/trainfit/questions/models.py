"""Models that were looked up. Workers are sent them, and load none of what looks up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trainfit.architectures.config import ConfigError
from trainfit.hub.errors import HubError
from trainfit.questions.dimensions import ResolvedModel, UnknownModelError, from_package
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.model import Model

Named = tuple[str | None, str | None]
Resolution = ResolvedModel | HubError | ConfigError | UnknownModelError
"""What a model of the Hub is resolved to, or why not."""

MAX_SPECS = 512
_SPECS: dict[Named, ModelSpec] = {}
"""The dimensions that commits of the Hub stand for, in a process that was sent them."""


class Models:
    """What models of the Hub were resolved to, or why not; those of the package are found there.
    It can be sent to another process, which keeps one of each model that it was sent.
    """

    def __init__(self, results: Mapping[Named, Resolution]) -> None:
        self._results = results

    def __call__(self, model: Model) -> ResolvedModel:
        """The model. Raises UnknownModelError, ConfigError and HubError."""
        result = self._results.get(name_of(model))
        if result is None:
            return from_package(model)
        if isinstance(result, Exception):
            raise result.with_traceback(None)
        return result

    def __getstate__(self) -> dict[Named, ResolvedModel | _Raised]:
        return {
            name: _Raised.of(each) if isinstance(each, Exception) else each
            for name, each in self._results.items()
        }

    def __setstate__(self, state: dict[Named, ResolvedModel | _Raised]) -> None:
        self._results = {
            name: each.error() if isinstance(each, _Raised) else _the_one(each)
            for name, each in state.items()
        }


class _Raised(NamedTuple):
    """An error that is made anew, whatever its class asks to be made of."""

    kind: type[Exception]
    args: tuple[Any, ...]
    values: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> _Raised:
        return cls(type(error), error.args, vars(error))

    def error(self) -> Any:
        error = self.kind.__new__(self.kind, *self.args)
        vars(error).update(self.values)
        return error


def _the_one(model: ResolvedModel) -> ResolvedModel:
    """A model that was sent, with the dimensions that were sent first for the same commit, so that
    what was worked out for them is found again.
    """
    source = model.source
    if source.source == "bundled" and source.name is not None:
        return from_package(Model(hf_id=source.name))
    if source.revision is None:
        return model
    if len(_SPECS) >= MAX_SPECS:
        _SPECS.clear()
    spec = _SPECS.setdefault((source.name, source.revision), model.spec)
    return replace(model, spec=spec)


def name_of(model: Model) -> Named:
    """What a model of the Hub is asked for by."""
    return model.hf_id, model.revision
