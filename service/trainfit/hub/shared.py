"""Configs that replicas share. Only what the Hub shows to anyone is kept there."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from trainfit.hub.entries import ConfigKey, Ref, Stored, stored_ref
from trainfit.hub.observer import Observer
from trainfit.hub.replicas import PREFIX, SharedServer

KEPT_SECONDS = 90 * 24 * 3600
"""Unless it is confirmed again."""
POLL_SECONDS = 0.05


class SharedConfigs:
    """The configs of one endpoint on a server. `turn_seconds`: how long a replica that fetches may
    keep the others waiting.
    """

    def __init__(self, url: str, endpoint: str, turn_seconds: float, observer: Observer) -> None:
        self._endpoint = endpoint
        self._turn_seconds = turn_seconds
        self._observer = observer
        self._server = SharedServer(url)
        self._redis = self._server.redis

    async def find(self, key: ConfigKey) -> Stored | None:
        """The config of a key."""

        async def read() -> Stored | None:
            if (value := await self._redis.get(self._ref_name(key))) is None:
                return None
            if (ref := _ref(value)) is None:
                self._observer.entry_malformed("shared")
                return None
            body = await self._redis.get(self._config_name(ref))
            return Stored(ref, body, "shared") if isinstance(body, bytes) else None

        return await self._server.answer(read)

    async def keep(self, keys: Sequence[ConfigKey], ref: Ref, body: bytes) -> None:
        """Keep a public config under its keys."""
        value = json.dumps([ref.name, ref.commit, ref.checked_at])

        async def write() -> None:
            async with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.set(self._config_name(ref), body, ex=KEPT_SECONDS)
                for key in keys:
                    pipeline.set(self._ref_name(key), value, ex=KEPT_SECONDS)
                await pipeline.execute()

        await self._server.answer(write)

    @asynccontextmanager
    async def turn(self, key: ConfigKey) -> AsyncIterator[None]:
        """Wait while another replica fetches this key, and let others wait meanwhile."""
        name = f"{PREFIX}:turn:{self._endpoint}:{key.repo}:{key.revision}"
        milliseconds = int(self._turn_seconds * 1000)

        async def take() -> bool:
            return bool(await self._redis.set(name, b"", nx=True, px=milliseconds))

        deadline = monotonic() + self._turn_seconds
        while (mine := await self._server.answer(take)) is False and monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            if mine:
                await self._server.answer(lambda: self._redis.delete(name))

    async def aclose(self) -> None:
        await self._server.aclose()

    def _ref_name(self, key: ConfigKey) -> str:
        return f"{PREFIX}:ref:{self._endpoint}:{key.repo}:{key.revision}"

    def _config_name(self, ref: Ref) -> str:
        return f"{PREFIX}:config:{self._endpoint}:{ref.name}:{ref.commit}"


def _ref(value: Any) -> Ref | None:
    """What was kept, if it is what `keep` writes."""
    try:
        name, commit, checked_at = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return stored_ref(name, commit, checked_at)
