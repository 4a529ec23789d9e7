"""Keys of callers: made here, given to a caller, and known to the service by their digests only.

A key is 256 random bits, which nobody guesses, so a plain SHA-256 keeps it as well as a salted or a
slow hash would, and costs a request a microsecond. What is not of the form of such a key is refused
whatever its digest, so that no weaker secret can be set in its place.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe

PREFIX = "trainfit_"
"""By which scanners for leaked secrets, and people, know a key."""

KEY = re.compile(PREFIX + "[A-Za-z0-9_-]{43}")
CREDENTIALS = re.compile(rf"(?i:bearer) +({KEY.pattern})")
ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key by its SHA-256 in lower-case hexadecimal, and whose it is.

    A caller has two of one label while one takes the place of the other.
    """

    label: str
    digest: str

    def __str__(self) -> str:
        """How a setting names it."""
        return f"{self.label}={self.digest}"


def new_key() -> str:
    """A fresh key."""
    return PREFIX + token_urlsafe(32)


def named(label: str, key: str) -> ApiKey:
    """A key under a label. Raises ValueError where no label reads so."""
    return _api_key(f"{label}={_digest(key)}")


def read_entries(given: str | tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
    """Keys from entries between commas or white space. Raises ValueError for any that is none."""
    if not isinstance(given, str):
        return given
    return tuple(_api_key(each) for each in given.replace(",", " ").split())


def owner(authorization: str, keys: Sequence[ApiKey]) -> str | None:
    """The label of the key in an Authorization header, or None where it has none of these keys.

    Every key is compared, each in constant time: how long it takes tells nothing about any.
    """
    given = CREDENTIALS.fullmatch(authorization.strip())
    digest = _digest(given[1]) if given else ""
    found = None
    for key in keys:
        if compare_digest(key.digest, digest):
            found = key.label
    return found


def _api_key(text: str) -> ApiKey:
    parts = ENTRY.fullmatch(text)
    if parts is None:
        raise ValueError("must be LABEL=SHA256, as `trainfit keys new LABEL` prints it")
    return ApiKey(*parts.groups())


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()
