"""Models of jobs, looked up before the core runs: on the Hub first, then in the package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trainfit.architectures.config import ConfigError
from trainfit.catalog.configs import close_bundled_ids
from trainfit.hub.entries import Found
from trainfit.hub.errors import HubError, MissingRepoError, OfflineError
from trainfit.hub.hub import Hub
from trainfit.questions.dimensions import UnknownModelError, bundled_model, from_hub
from trainfit.questions.models import Models, Resolution, name_of
from trainfit.specs.model import Model


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
        named = {name_of(each): each for each in models if each.hf_id is not None}
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
                return Models({name_of(model): _resolution(model, found)})
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
