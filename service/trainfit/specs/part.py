"""What every part of a job has in common: it is immutable, strict and closed."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that a JSON client keeps exactly; every count and byte figure stays below it."""


MAX_FIELDS = 512
"""More than any part of a job has."""


class Part(BaseModel):
    """A frozen piece of a specification. Unknown fields and silent conversions are refused. Its
    validator is built where it is first used: most parts are read as fields of others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _is_no_flood(cls, value: Any) -> Any:
        """Refuse in one error what would cost one for each of thousands of unknown fields."""
        if isinstance(value, dict) and len(value) > MAX_FIELDS:
            raise ValueError(f"has {len(value)} fields; at most {MAX_FIELDS} are looked at")
        return value


def build_all(kind: type[Part] = Part) -> None:
    """Build the validators of all parts that are loaded, for a process that goes on."""
    for each in kind.__subclasses__():
        each.model_rebuild()
        build_all(each)


def build_at_once(kind: type[Part] = Part) -> None:
    """Build the validator of a part with its class, or with the route that reads it: FastAPI keeps
    back what pydantic warns of there.
    """
    kind.model_config["defer_build"] = False
    for each in kind.__subclasses__():
        build_at_once(each)


Bytes = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]

TokenCount = Annotated[int, Field(ge=1, le=16_777_216)]

Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""A size of a layout or a number of things."""

Width = Annotated[int, Field(ge=1, le=4_194_304)]
"""Features of one dimension of a tensor."""

Dimension = Annotated[int, Field(ge=1, le=2**40)]
"""One dimension of a weight, or a number of parameters given as one dimension."""

Probability = Annotated[float, Field(ge=0.0, le=1.0)]

LayerCount = Annotated[int, Field(ge=0, le=2048)]
