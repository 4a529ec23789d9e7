"""What outlives the process: this machine's disk, a cache of huggingface_hub, and what replicas
share. Whichever confirmed a ref last is believed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import time
from typing import TYPE_CHECKING

from trainfit.hub.disk import Disk
from trainfit.hub.entries import PUBLIC, ConfigKey, Ref, Stored, is_commit
from trainfit.hub.huggingface import HuggingFaceCache
from trainfit.hub.observer import Observer
from trainfit.hub.settings import HubSettings

if TYPE_CHECKING:
    from trainfit.hub.shared import SharedConfigs


class Stores:
    """All of them. What a token showed goes to this machine's disk only."""

    def __init__(self, settings: HubSettings, observer: Observer, *, personal: bool) -> None:
        self._ttl = settings.hub_ttl_seconds
        folder, foreign = settings.cache_folder(), settings.foreign_cache(personal=personal)
        self._disk = Disk(folder, settings.hf_endpoint, observer) if folder is not None else None
        self._foreign = HuggingFaceCache(foreign) if foreign is not None else None
        self._shared = _shared(settings, observer)

    def stale_at(self, key: ConfigKey, ref: Ref) -> float:
        """Until when a ref is taken for granted, in seconds since the epoch; a commit for ever."""
        return float("inf") if is_commit(key.revision) else ref.checked_at + self._ttl

    def is_fresh(self, key: ConfigKey, stored: Stored | None) -> bool:
        """Whether the Hub need not be asked."""
        return stored is not None and time() < self.stale_at(key, stored.ref)

    async def find(self, key: ConfigKey) -> Stored | None:
        """The youngest of what they have; the nearest where it is fresh."""
        stored = await asyncio.to_thread(self._find_here, key)
        if self._shared is None or key.scope != PUBLIC or self.is_fresh(key, stored):
            return stored
        younger = _younger(stored, await self._shared.find(key))
        if younger is not None and younger is not stored:
            await self._keep_here([key], younger.ref, younger.body)
        return younger

    async def keep(self, keys: Sequence[ConfigKey], ref: Ref, body: bytes) -> None:
        """Keep a config under keys of one scope."""
        await self._keep_here(keys, ref, body)
        if self._shared is not None and keys[0].scope == PUBLIC:
            await self._shared.keep(keys, ref, body)

    @asynccontextmanager
    async def turn(self, key: ConfigKey) -> AsyncIterator[Stored | None]:
        """Where another replica fetches this key, wait, and have what it fetched."""
        if self._shared is None or key.scope != PUBLIC:
            yield None
            return
        async with self._shared.turn(key):
            stored = await self._shared.find(key)
            if stored is None or not self.is_fresh(key, stored):
                yield None
                return
            await self._keep_here([key], stored.ref, stored.body)
            yield stored

    async def secret(self, *, make: bool) -> bytes | None:
        """A secret that outlives the process, where there is a disk."""
        if self._disk is None:
            return None
        return await asyncio.to_thread(self._disk.secret, make=make)

    async def aclose(self) -> None:
        if self._shared is not None:
            await self._shared.aclose()
        if self._disk is not None:
            self._disk.close()

    def _find_here(self, key: ConfigKey) -> Stored | None:
        on_disk = self._disk.find(key) if self._disk is not None else None
        if self._foreign is None or self.is_fresh(key, on_disk):
            return on_disk
        return _younger(on_disk, self._foreign.find(key))

    async def _keep_here(self, keys: Sequence[ConfigKey], ref: Ref, body: bytes) -> None:
        if self._disk is not None:
            await asyncio.to_thread(self._disk.keep, keys, ref, body)


def _younger(one: Stored | None, other: Stored | None) -> Stored | None:
    """The one that was confirmed last, and of two at once the first."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda each: each.ref.checked_at)


def _shared(settings: HubSettings, observer: Observer) -> "SharedConfigs | None":
    """The shared cache, whose client is loaded where there is one."""
    if settings.cache_url is None:
        return None
    from trainfit.hub.shared import SharedConfigs

    turn_seconds = settings.hub_timeout_seconds / 2
    url = settings.cache_url.get_secret_value()
    return SharedConfigs(url, settings.hf_endpoint, turn_seconds, observer)
