"""JSON Pointers (RFC 6901) into a request, kept short however long the caller's own names are."""

from collections.abc import Iterable
from itertools import islice

MAX_TOKENS = 16
MAX_TOKEN_LENGTH = 64


def json_pointer(path: Iterable[str | int]) -> str:
    """The pointer of a path; what exceeds the bounds is cut off."""
    return "".join(f"/{_escaped(shortened(part))}" for part in islice(path, MAX_TOKENS))


def shortened(part: str | int) -> str:
    """A name or index cut to length, without half a surrogate pair, which UTF-8 cannot carry."""
    return str(part)[:MAX_TOKEN_LENGTH].encode("utf-8", "replace").decode()


def _escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")
