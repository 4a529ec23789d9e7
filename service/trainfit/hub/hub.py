"""Where a model is found: in memory, in a store, on the Hub; and what is answered without it."""

import asyncio
import hmac
import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from time import time

from trainfit.hub.config_json import held_bytes, read_config
from trainfit.hub.entries import MAIN, ConfigKey, Found, HubConfig, Ref, Stored
from trainfit.hub.errors import (
    GatedRepoError,
    HubError,
    MalformedAnswerError,
    MissingRepoError,
    NoAnswerError,
    NotAllowedError,
    OfflineError,
    RepoError,
    SlowHubError,
)
from trainfit.hub.flights import Flights
from trainfit.hub.memory import Brief, Memory, Remembered
from trainfit.hub.observer import Nobody, Observer
from trainfit.hub.settings import HubSettings
from trainfit.hub.stores import Stores
from trainfit.hub.upstream import Upstream

REFUSED_SECONDS = 60.0
"""How long what the Hub refuses is not asked for again."""
REST_SECONDS = 5.0
"""How long nobody looks again where nothing was found, or where there was no answer."""
SCOPE_LENGTH = 32


class Hub:
    """Looks up models on the Hub and remembers them. `personal`: for the one at this terminal.

    A caller's own token is used for that caller alone: what only it opens is kept under a digest
    of it, which nobody without the token can ask for.
    """

    def __init__(
        self,
        settings: HubSettings,
        observer: Observer | None = None,
        *,
        personal: bool = False,
        offline: bool = False,
    ) -> None:
        self._observer = observer or Nobody()
        self._in_person = personal
        self._offline = offline or settings.hf_hub_offline
        self._patience = settings.hub_timeout_seconds
        self._token = settings.own_token(personal=personal)
        self._organisations = frozenset(each.casefold() for each in settings.hub_organisations)
        self._memory = Memory()
        self._stores = Stores(settings, self._observer, personal=personal)
        self._upstream = Upstream(settings, self._observer)
        self._refusals: Brief[HubError] = Brief()
        self._absent: Brief[None] = Brief()
        self._reads: Flights[Found | None] = Flights()
        self._fetches: Flights[Found] = Flights()
        self._secret: bytes | None = None

    async def find(
        self,
        repo: str,
        revision: str | None = None,
        token: str | None = None,
        *,
        patience: float | None = None,
    ) -> Found:
        """The config of a repository at a revision, main unless given. Raises HubError.

        With `patience`, who asks has another answer at hand, and waits for the Hub no longer than
        so many seconds, and not at all where it has just failed. What is under way goes on.
        """
        if not self._is_allowed(repo):
            raise NotAllowedError
        key = ConfigKey(repo, revision or MAIN)
        if (fresh := self._fresh(key)) is not None:
            return fresh
        token = token or self._token
        if token is None:
            return await self._find(key, None, patience)
        own = await self._own(key, token)
        if (fresh := self._fresh(own)) is not None:
            return fresh
        try:
            return await self._find(key, None, patience)
        except (GatedRepoError, MissingRepoError):
            return await self._find(own, token, patience)
        except (NoAnswerError, OfflineError):
            if (found := await self._known(own)) is None:
                raise
            return found

    def at_hand(self, repo: str, revision: str | None = None) -> Found | HubError | None:
        """What `find` comes to for a caller without a token, if that needs no waiting: a model, or
        why there is none. None where it may have to wait.
        """
        if not self._is_allowed(repo):
            return NotAllowedError()
        key = ConfigKey(repo, revision or MAIN)
        if (fresh := self._fresh(key)) is not None:
            return fresh
        if self._token is not None:
            return self._fresh(_scoped(key, self._token, self._secret)) if self._secret else None
        if (refusal := self._refusal(key)) is not None:
            return refusal
        if (entry := self._memory.find(key)) is not None:
            self._ask_again(key, None)
            return self._remembered(entry)
        return OfflineError() if self._offline and self._is_absent(key) else None

    async def recall(self, repo: str, revision: str | None = None) -> Found | None:
        """What is known of a public model, without asking the Hub."""
        return (
            await self._known(ConfigKey(repo, revision or MAIN)) if self._is_allowed(repo) else None
        )

    async def pull(self, repo: str, revision: str | None = None) -> Found:
        """Ask the Hub, whatever is known, and keep what it says. Raises HubError."""
        if not self._is_allowed(repo):
            raise NotAllowedError
        if self._offline:
            raise OfflineError
        key = ConfigKey(repo, revision or MAIN)
        try:
            return await self._fetch(key, None)
        except (GatedRepoError, MissingRepoError):
            if self._token is None:
                raise
            return await self._fetch(await self._own(key, self._token), self._token)

    async def aclose(self) -> None:
        """End what is under way and close what is open."""
        await self._fetches.aclose()
        await self._reads.aclose()
        await self._upstream.aclose()
        await self._stores.aclose()

    def _is_allowed(self, repo: str) -> bool:
        return not self._organisations or repo.partition("/")[0].casefold() in self._organisations

    async def _own(self, key: ConfigKey, token: str) -> ConfigKey:
        """The key in the scope of a token. Only who has the token can make it."""
        if self._secret is None:
            kept = await self._stores.secret(make=not self._offline)
            if self._secret is None:  # nobody was quicker
                self._secret = kept or os.urandom(SCOPE_LENGTH)
        return _scoped(key, token, self._secret)

    def _fresh(self, key: ConfigKey) -> Found | None:
        """What memory has, if nobody need be asked: the way of nearly every request."""
        entry = self._memory.find(key)
        if entry is None or time() >= entry.stale_at:
            return None
        self._observer.model_found("memory")
        return Found(entry.ref, entry.config, stale=False)

    async def _find(self, key: ConfigKey, token: str | None, patience: float | None) -> Found:
        """What a key names in its scope: known, or fetched."""
        if (refusal := self._refusal(key)) is not None:
            raise refusal.with_traceback(None)
        lapsed = self._refusals.find(key)
        found = await self._known(key)
        if self._offline:
            if found is None:
                raise OfflineError
            return found
        if found is not None and lapsed is None:
            return await self._confirmed(key, token, found)
        task = self._start(key, token)
        if lapsed is not None and (found is not None or patience is not None):
            raise lapsed[0].with_traceback(None)
        return await self._awaited(task, patience)

    def _refusal(self, key: ConfigKey) -> HubError | None:
        """What the Hub refused a while ago, and is not asked for again yet."""
        refusal = self._refusals.find(key)
        return refusal[0] if refusal is not None and time() < refusal[1] else None

    async def _confirmed(self, key: ConfigKey, token: str | None, found: Found) -> Found:
        """What is known, to be confirmed behind the caller's back; before the eyes of a person,
        whose process ends with the answer.
        """
        task = self._ask_again(key, token)
        if task is not None and self._in_person:
            with suppress(NoAnswerError):
                return await self._awaited(task, self._patience)
        return found

    def _ask_again(self, key: ConfigKey, token: str | None) -> "asyncio.Task[Found] | None":
        """Ask for what memory has, once it is due."""
        entry = self._memory.find(key)
        if self._offline or entry is None or time() < entry.due_at:
            return None
        return self._start(key, token)

    async def _known(self, key: ConfigKey) -> Found | None:
        """What memory or a store has."""
        if (entry := self._memory.find(key)) is not None:
            return self._remembered(entry)
        if self._is_absent(key):
            return None
        return await self._reads.join(key, lambda: self._read(key))

    def _is_absent(self, key: ConfigKey) -> bool:
        """Whether the stores had nothing a moment ago."""
        absent = self._absent.find(key)
        return absent is not None and time() < absent[1]

    def _remembered(self, entry: Remembered) -> Found:
        self._observer.model_found("memory")
        return Found(entry.ref, entry.config, stale=time() >= entry.stale_at)

    async def _read(self, key: ConfigKey) -> Found | None:
        """What the stores have, into memory."""
        found = self._take(key, await self._stores.find(key))
        if found is None:
            self._absent.put(key, None, time() + REST_SECONDS)
        return found

    def _take(self, key: ConfigKey, stored: Stored | None) -> Found | None:
        if stored is None:
            return None
        try:
            config = HubConfig(read_config(stored.body), held_bytes(stored.body))
        except MalformedAnswerError:  # whoever wrote it was not this program
            self._observer.entry_malformed(stored.layer)
            return None
        self._observer.model_found(stored.layer)
        return self._remember([key], stored.ref, config)

    def _start(self, key: ConfigKey, token: str | None) -> "asyncio.Task[Found]":
        return self._fetches.start(key, lambda: self._fetch_in_turn(key, token))

    async def _awaited(self, task: "asyncio.Task[Found]", patience: float | None) -> Found:
        """What a fetch brings in time. It goes on without those who wait no longer."""
        if patience is None:
            patience = self._patience
        elif self._upstream.is_down:
            patience = 0.0
        try:
            async with asyncio.timeout(patience):
                return await asyncio.shield(task)
        except TimeoutError:
            raise SlowHubError from None

    async def _fetch_in_turn(self, key: ConfigKey, token: str | None) -> Found:
        """Fetch a key, or take what another replica has fetched meanwhile."""
        async with self._stores.turn(key) as stored:
            found = self._take(key, stored)
            return found if found is not None else await self._fetch(key, token)

    async def _fetch(self, key: ConfigKey, token: str | None) -> Found:
        """Ask the Hub, and keep what it says."""
        try:
            fetched = await self._upstream.fetch(key, token)
        except RepoError as error:
            self._refusals.put(key, error, time() + REFUSED_SECONDS)
            raise
        except NoAnswerError as error:
            self._rest(key, error)
            raise
        self._refusals.drop(key)
        self._observer.model_found("hub")
        ref = Ref(fetched.name, fetched.commit, time())
        entry = self._memory.find(key)
        same = entry is not None and entry.ref.commit == ref.commit
        config = (
            entry.config
            if entry is not None and same
            else HubConfig(fetched.values, held_bytes(fetched.body))
        )
        keys = [key, ConfigKey(ref.name, ref.commit, key.scope)]
        found = self._remember(keys, ref, config)
        await self._stores.keep(keys, ref, fetched.body)
        return found

    def _rest(self, key: ConfigKey, error: NoAnswerError) -> None:
        """Ask no more for this key for a while: answer with what is known, else with the error."""
        until = time() + REST_SECONDS
        entry = self._memory.find(key)
        if entry is None:
            self._refusals.put(key, error, until)
        else:
            self._refusals.drop(key)
            entry.due_at = until

    def _remember(self, keys: Sequence[ConfigKey], ref: Ref, config: HubConfig) -> Found:
        for key in keys:
            stale_at = self._stores.stale_at(key, ref)
            self._memory.put(key, Remembered(ref, config, stale_at, due_at=stale_at))
            self._absent.drop(key)
        self._observer.cache_holds(len(self._memory))
        return Found(ref, config, stale=time() >= self._stores.stale_at(keys[0], ref))


def _scoped(key: ConfigKey, token: str, secret: bytes) -> ConfigKey:
    """The key in the scope of a token, which only one who has the token can make."""
    scope = hmac.digest(secret, token.encode(), sha256).hex()[:SCOPE_LENGTH]
    return ConfigKey(key.repo, key.revision, scope)
