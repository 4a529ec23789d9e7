"""Models of jobs, looked up before the core runs: on the Hub first, then in the package."""

import asyncio
from collections.abc import Iterable

from trainfit.architectures.config import ConfigError
from trainfit.catalog.configs import close_bundled_ids
from trainfit.dimensions import (
    Find,
    ResolvedModel,
    UnknownModelError,
    bundled_model,
    from_hub,
    from_package,
)
from trainfit.hub.errors import HubError, MissingRepoError, OfflineError
from trainfit.hub.hub import Hub
from trainfit.specs.model import Model

Named = tuple[str | None, str | None]


class Lookup:
    """Looks up models on a hub. Where the package has a config too, it waits for the Hub no longer
    than `patience_seconds`.
    """

    def __init__(self, hub: Hub, patience_seconds: float) -> None:
        self._hub = hub
        self._patience_seconds = patience_seconds

    async def find(self, models: Iterable[Model], token: str | None = None) -> Find:
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

        def of(model: Model) -> ResolvedModel:
            result = results.get(_named(model))
            if result is None:
                return from_package(model)
            if isinstance(result, Exception):
                raise result.with_traceback(None)
            return result

        return of

    async def known(self, model: Model) -> ResolvedModel:
        """A model as far as it is known without asking the Hub. Raises UnknownModelError and
        ConfigError.
        """
        if model.hf_id is not None:
            found = await self._hub.recall(model.hf_id, model.revision)
            if found is not None:
                return from_hub(found)
        return from_package(model)

    async def _looked_up(
        self, model: Model, token: str | None
    ) -> ResolvedModel | HubError | ConfigError | UnknownModelError:
        """A model of the Hub; the one of the package where the Hub has none that can be read."""
        assert model.hf_id is not None
        bundled = bundled_model(model)
        patience = self._patience_seconds if bundled is not None else None
        try:
            return from_hub(
                await self._hub.find(model.hf_id, model.revision, token, patience=patience)
            )
        except (MissingRepoError, OfflineError) as error:
            return bundled or UnknownModelError(str(error), close_bundled_ids(model.hf_id))
        except (HubError, ConfigError) as error:
            return bundled or error


def _named(model: Model) -> Named:
    return model.hf_id, model.revision
