"""Models of jobs, looked up before the core runs: on the Hub first, then in the package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from trainfit.architectures.config import ConfigError
from trainfit.catalog.configs import close_bundled_ids
from trainfit.hub.entries import Found
from trainfit.hub.errors import HubError, MissingRepoError, OfflineError
from trainfit.hub.hub import Hub
from trainfit.questions.dimensions import (
    ResolvedModel,
    UnknownModelError,
    bundled_model,
    from_hub,
    from_package,
)
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
        result = self._results.get(_named(model))
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


class Lookup:
    """Looks up models on a hub. Where the package has a config too, it waits for the Hub no longer
    than `patience_seconds`.
    """

    def __init__(self, hub: Hub, patience_seconds: float) -> None:
        self._hub = hub
        self._patience_seconds = patience_seconds

    async def find(self, models: Iterable[Model], token: str | None = None) -> Models:
        """What these models are resolved to, or why not: a function that needs no network.

        A caller's own `token` opens models that are gated or private.
        """
        named = {_named(each): each for each in models if each.hf_id is not None}
        if len(named) == 1:
            ((name, model),) = named.items()
            results = {name: await self._looked_up(model, token)}
        else:
            found = await asyncio.gather(*(self._looked_up(each, token) for each in named.values()))
            results = dict(zip(named, found, strict=True))
        return Models(results)

    def at_hand(self, model: Model) -> Resolution | None:
        """What `find` comes to for a caller without a token, if that needs no waiting."""
        assert model.hf_id is not None
        outcome = self._hub.at_hand(model.hf_id, model.revision)
        return None if outcome is None else _resolution(model, outcome)

    async def known(self, model: Model) -> Models:
        """A model as far as it is known without asking the Hub."""
        if model.hf_id is not None:
            found = await self._hub.recall(model.hf_id, model.revision)
            if found is not None:
                return Models({_named(model): _resolution(model, found)})
        return Models({})

    async def _looked_up(self, model: Model, token: str | None) -> Resolution:
        assert model.hf_id is not None
        patience = self._patience_seconds if bundled_model(model) is not None else None
        outcome: Found | HubError
        try:
            outcome = await self._hub.find(model.hf_id, model.revision, token, patience=patience)
        except HubError as error:
            outcome = error
        return _resolution(model, outcome)


def _resolution(model: Model, outcome: Found | HubError) -> Resolution:
    """A model of the Hub; the one of the package where the Hub has none that can be read."""
    if isinstance(outcome, Found):
        try:
            return from_hub(outcome)
        except ConfigError as error:
            return bundled_model(model) or error
    if (bundled := bundled_model(model)) is not None:
        return bundled
    if isinstance(outcome, MissingRepoError | OfflineError):
        assert model.hf_id is not None
        return UnknownModelError(str(outcome), close_bundled_ids(model.hf_id))
    return outcome


def _named(model: Model) -> Named:
    return model.hf_id, model.revision
