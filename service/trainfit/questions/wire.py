"""Answers as bytes: one serialisation, so that the terminal prints what HTTP sends."""

from collections.abc import Hashable
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter


def to_json(answer: object) -> bytes:
    """The JSON document of an answer, a frozen dataclass."""
    return _adapter(cast(Hashable, type(answer))).dump_json(answer)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
