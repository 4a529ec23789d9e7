"""One question to the Hub over HTTP. The only module that knows httpx.

A caller names a repository and a revision, never a URL. Redirects are followed by hand, so that a
token goes to the endpoint alone and nobody is led elsewhere.
"""

import logging
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.parse import quote, unquote

import httpx

from trainfit import __version__
from trainfit.hub.config_json import MAX_BYTES, read_config
from trainfit.hub.entries import is_commit
from trainfit.hub.errors import (
    AdapterError,
    GatedRepoError,
    MalformedAnswerError,
    MissingRepoError,
    MissingRevisionError,
    NoConfigError,
    RateLimitedError,
    RenamedRepoError,
    SlowHubError,
    UnreachableError,
)
from trainfit.hub.waiting import seconds_to_wait

CONFIG = "config.json"
ADAPTER_CONFIG = "adapter_config.json"

MAX_REDIRECTS = 5
MAX_CONNECTIONS = 32
SHORT_BYTES = 4096
STORAGE = (".huggingface.co", ".hf.co")
"""Where the Hub keeps files; it redirects there, whatever the endpoint is called."""
MEDIA_TYPES = ("", "application/json", "application/octet-stream", "binary/octet-stream")
"""What a file may be sent as, besides as text. A page of HTML is what portals answer."""
REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)?")
MAX_REPO_LENGTH = 96

# It would log what callers ask for.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A config.json, the commit that it is of, and the Hub's own spelling of the repository."""

    name: str
    commit: str
    body: bytes
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    commit: str
    body: bytes


class HubClient:
    """Asks one endpoint. Proxies and certificates are those of the environment."""

    def __init__(self, endpoint: str, connect_seconds: float) -> None:
        self._endpoint = httpx.URL(endpoint)
        self._client = httpx.AsyncClient(
            # The whole exchange has a deadline of its own.
            timeout=httpx.Timeout(None, connect=connect_seconds),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=30),
            headers={"User-Agent": f"trainfit/{__version__}", "Accept-Encoding": "gzip"},
            # What one caller's answer sets must not go along with another's question.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            follow_redirects=False,
        )

    async def fetch(self, repo: str, revision: str, token: str | None) -> Fetched:
        """The config.json of a repository. Raises RepoError and NoAnswerError."""
        try:
            file = await self._file(repo, revision, CONFIG, token)
        except NoConfigError:
            raise await self._without_config(repo, revision, token) from None
        return Fetched(file.name, file.commit, file.body, read_config(file.body))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _without_config(
        self, repo: str, revision: str, token: str | None
    ) -> NoConfigError | AdapterError:
        """Whether a repository without config.json holds an adapter, and of what."""
        try:
            file = await self._file(repo, revision, ADAPTER_CONFIG, token)
            base = read_config(file.body).get("base_model_name_or_path")
        except (NoConfigError, MalformedAnswerError):
            return NoConfigError()
        return AdapterError(base if isinstance(base, str) and _is_repo(base) else None)

    async def _file(self, repo: str, revision: str, file: str, token: str | None) -> _File:
        prefix = self._endpoint.path.rstrip("/")
        path = f"{prefix}/{repo}/resolve/{quote(revision, safe='')}/{file}"
        url = self._endpoint.copy_with(raw_path=path.encode())
        name, commit = repo, revision if is_commit(revision) else ""
        for _ in range(MAX_REDIRECTS + 1):
            async with self._asked(url, token) as response:
                commit = commit or _commit(response)
                if not response.has_redirect_location:
                    _check(response, refused="authorization" in response.request.headers)
                    return _File(name, _known(commit), await _body(response))
                url = self._target(response)
                name = self._moved(name, url) or name
                await _drain(response)
        raise MalformedAnswerError("the Hub redirects without end")

    @asynccontextmanager
    async def _asked(self, url: httpx.URL, token: str | None) -> AsyncIterator[httpx.Response]:
        request = self._client.build_request("GET", url)
        if token is not None and _origin(url) == _origin(self._endpoint):
            request.headers["Authorization"] = f"Bearer {token}"
        try:
            response = await self._client.send(request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise UnreachableError("the Hub cannot be reached", connected=False) from None
        except httpx.TimeoutException:
            raise SlowHubError from None
        except (httpx.HTTPError, httpx.InvalidURL):  # the latter, of a redirect
            raise UnreachableError("the connection to the Hub broke off") from None

    def _target(self, response: httpx.Response) -> httpx.URL:
        """Where a redirect leads, if one may go there."""
        url = response.request.url.join(response.headers["location"])
        stored = url.scheme == "https" and f".{url.host}".endswith(STORAGE)
        if not stored and _origin(url) != _origin(self._endpoint):
            raise MalformedAnswerError("the Hub redirects to a host that is none of its own")
        return url.copy_with(username=None, password=None)

    def _moved(self, repo: str, url: httpx.URL) -> str | None:
        """The repository that a redirect names, where it differs in upper and lower case only.

        Raises RenamedRepoError where it is another one.
        """
        prefix = re.escape(self._endpoint.path.rstrip("/"))
        path = url.raw_path.decode("ascii").partition("?")[0]
        named = re.fullmatch(rf"{prefix}/(.+)/resolve/[^/]+/[^/]+", path)
        if named is None or _origin(url) != _origin(self._endpoint):
            return None
        name = unquote(named[1])
        if not _is_repo(name):
            raise MalformedAnswerError("the Hub redirects to what is no repository")
        if name.casefold() != repo.casefold():
            raise RenamedRepoError(name)
        return name


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _is_repo(name: str) -> bool:
    return len(name) <= MAX_REPO_LENGTH and REPO.fullmatch(name) is not None


def _commit(response: httpx.Response) -> str:
    named: str = response.headers.get("x-repo-commit", "")
    return named if is_commit(named) else ""


def _known(commit: str) -> str:
    if not commit:
        raise MalformedAnswerError("the Hub does not say which commit it answers for")
    return commit


def _check(response: httpx.Response, *, refused: bool) -> None:
    """Raise what a status means, unless it is 200. The Hub says more in X-Error-Code; a mirror may
    not.
    """
    status, code = response.status_code, response.headers.get("x-error-code", "")
    if status == 200:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        as_text = media_type.startswith("text/") and media_type != "text/html"
        if not as_text and media_type not in MEDIA_TYPES:
            raise MalformedAnswerError("the Hub answers with something that is no file")
        return
    if code == "RevisionNotFound":
        raise MissingRevisionError
    if code == "EntryNotFound":
        raise NoConfigError
    if code == "RepoNotFound" or status == 404:
        raise MissingRepoError
    if status in (401, 403):
        raise GatedRepoError(refused=refused)
    if status == 429:
        raise RateLimitedError(seconds_to_wait(response.headers))
    if status >= 500:
        raise UnreachableError("the Hub fails", seconds_to_wait(response.headers))
    raise MalformedAnswerError(f"the Hub answers with status {status}")


async def _drain(response: httpx.Response) -> None:
    """Read a short body to its end, so that the connection can be used again."""
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) <= SHORT_BYTES:
        async for _ in response.aiter_raw():
            pass


async def _body(response: httpx.Response) -> bytes:
    """The file, unpacked by hand: httpx would unpack a whole part of it before one can stop."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise MalformedAnswerError("the Hub answers in an encoding that was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    body, received = bytearray(), 0
    async for part in response.aiter_raw():
        received += len(part)
        room = MAX_BYTES + 1 - len(body)
        try:
            body += part if unpack is None else unpack.decompress(part, room)
        except zlib.error:
            raise MalformedAnswerError("the file is not what it is said to be") from None
        if max(len(body), received) > MAX_BYTES:
            raise MalformedAnswerError(f"the file has more than {MAX_BYTES} bytes")
    if unpack is not None and not unpack.eof:
        raise MalformedAnswerError("the file ends before its end")
    return bytes(body)
