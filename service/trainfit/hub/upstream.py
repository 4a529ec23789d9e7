"""The Hub as one may ask it: within a deadline, not too often, and not while it is down."""

import asyncio
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from trainfit.hub.circuit import Circuit
from trainfit.hub.entries import ConfigKey
from trainfit.hub.errors import (
    AdapterError,
    GatedRepoError,
    HubError,
    MalformedAnswerError,
    MissingRepoError,
    MissingRevisionError,
    NoAnswerError,
    NoConfigError,
    RateLimitedError,
    RenamedRepoError,
    SlowHubError,
    UnreachableError,
)
from trainfit.hub.memory import Brief
from trainfit.hub.observer import Observer, Outcome
from trainfit.hub.settings import HubSettings

if TYPE_CHECKING:
    from trainfit.hub.client import Fetched, HubClient

RETRIES = 2
BACKOFF_SECONDS = 0.1
MAX_AT_ONCE = 16
LIMITED_SECONDS = 30.0
"""Where the Hub does not say for how long it takes no more requests."""
LONGEST_SECONDS = 900.0

OUTCOMES: Mapping[type[HubError], Outcome] = {
    MissingRepoError: "missing",
    MissingRevisionError: "missing",
    GatedRepoError: "gated",
    RenamedRepoError: "renamed",
    NoConfigError: "no_config",
    AdapterError: "no_config",
    RateLimitedError: "rate_limited",
    SlowHubError: "slow",
    UnreachableError: "unreachable",
    MalformedAnswerError: "malformed",
}


class Upstream:
    """The Hub, with retries, a deadline and a circuit breaker."""

    def __init__(self, settings: HubSettings, observer: Observer) -> None:
        self._settings = settings
        self._observer = observer
        self._circuit = Circuit()
        self._limited: Brief[None] = Brief()
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)
        self._client: HubClient | None = None

    @property
    def is_down(self) -> bool:
        """Whether the Hub has failed lately."""
        return self._circuit.is_open

    async def fetch(self, key: ConfigKey, token: str | None) -> "Fetched":
        """The config.json of a key. Raises RepoError and NoAnswerError."""
        self._circuit.admit()
        client = self._connect()
        deadline = monotonic() + self._settings.hub_timeout_seconds
        try:
            fetched = await self._retried(client, key, token, deadline)
        except (UnreachableError, SlowHubError) as error:
            self._circuit.failed(key.repo, connected=getattr(error, "connected", True))
            raise
        except HubError:
            self._circuit.succeeded()
            raise
        self._circuit.succeeded()
        return fetched

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _connect(self) -> "HubClient":
        """The client, which is loaded by who goes to the network."""
        if self._client is None:
            # Its own command line, which loads three libraries more, httpx can do without.
            sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
            from trainfit.hub.client import HubClient

            self._client = HubClient(
                self._settings.hf_endpoint, self._settings.hub_connect_timeout_seconds
            )
        return self._client

    async def _retried(
        self, client: "HubClient", key: ConfigKey, token: str | None, deadline: float
    ) -> "Fetched":
        for attempt in range(RETRIES + 1):
            self._check_limit(key)
            try:
                return await self._asked(client, key, token, deadline)
            except (RateLimitedError, UnreachableError) as error:
                wait = error.retry_after
                pause = BACKOFF_SECONDS * 2**attempt if wait is None else wait
                lost = isinstance(error, UnreachableError) and not error.connected
                if lost or attempt == RETRIES or monotonic() + pause >= deadline:
                    self._limit(key, error)
                    raise
            await asyncio.sleep(pause * random.uniform(1, 1.5))
        raise AssertionError("the last attempt returns or raises")

    async def _asked(
        self, client: "HubClient", key: ConfigKey, token: str | None, deadline: float
    ) -> "Fetched":
        try:
            async with asyncio.timeout(deadline - monotonic()), self._at_once:
                with self._observed():
                    return await client.fetch(key.repo, key.revision, token)
        except TimeoutError:
            raise SlowHubError from None

    @contextmanager
    def _observed(self) -> Iterator[None]:
        begin = monotonic()
        outcome: Outcome = "slow"  # unless it ends before the deadline cuts it off
        try:
            yield
            outcome = "found"
        except HubError as error:
            outcome = OUTCOMES[type(error)]
            raise
        finally:
            self._observer.hub_asked(outcome, monotonic() - begin)

    def _check_limit(self, key: ConfigKey) -> None:
        if (limited := self._limited.find(key.scope)) is not None:
            rest = limited[1] - monotonic()
            if rest > 0:
                raise RateLimitedError(rest)

    def _limit(self, key: ConfigKey, error: NoAnswerError) -> None:
        """Ask nothing more with the same token for as long as the Hub wants that."""
        wait = error.retry_after
        if wait is None and isinstance(error, RateLimitedError):
            wait = LIMITED_SECONDS
        if wait:
            self._limited.put(key.scope, None, monotonic() + min(wait, LONGEST_SECONDS))
