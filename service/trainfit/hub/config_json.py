"""A config.json as bytes, read as transformers reads it and no further than is safe."""

import json
from typing import Any

from trainfit.hub.errors import MalformedAnswerError

MAX_BYTES = 2**20
MAX_VALUES = 200_000
"""The longest of published configs name some ten thousand labels."""

VALUE_BYTES = 128
"""Of memory for a value and its place, besides its text: an entry of a dict, its key, an int."""


def held_bytes(body: bytes) -> int:
    """About what the object that a text is takes of memory."""
    return len(body) + VALUE_BYTES * sum(map(body.count, (b",", b"[", b"{")))


def read_config(body: bytes) -> dict[str, Any]:
    """The object that the text is. NaN and Infinity, which some published configs have, are read
    as numbers. Raises MalformedAnswerError.
    """
    if len(body) > MAX_BYTES:
        raise MalformedAnswerError(f"the file has more than {MAX_BYTES} bytes")
    if body.count(b",") >= MAX_VALUES:
        raise MalformedAnswerError(f"the file has more than {MAX_VALUES} values")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise MalformedAnswerError("the file is not JSON") from None
    if not isinstance(values, dict):
        raise MalformedAnswerError("the file holds no JSON object")
    return values
