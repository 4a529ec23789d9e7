"""Answers as bytes: one serialisation, so that the terminal prints what HTTP sends."""

from pydantic import TypeAdapter


def to_json(answer: object) -> bytes:
    """The JSON document of an answer, a frozen dataclass."""
    return TypeAdapter(type(answer)).dump_json(answer)
