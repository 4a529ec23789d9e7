"""The type of a field of a job, by its pointer: a command line has text where a job has numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, TypeAdapter, ValidationError
from typing_extensions import TypeAliasType

from trainfit.specs.job import Job
from trainfit.specs.part import Part


def as_field(pointer: str, value: Any) -> Any:
    """The value as the field at `pointer` takes it: text is read, and a list is one that the field
    may have. Raises ValueError with what it must be.
    """
    if not isinstance(value, str | list):
        return value
    try:
        read = _field(pointer).validate_python(value, strict=False)
        return read if isinstance(value, str) else value
    except ValidationError as error:
        wanted = error.errors()[0]["msg"].partition(", unable")[0]
        raise ValueError(wanted.replace("Input should be", "must be")) from None


@cache
def _field(pointer: str) -> TypeAdapter[Any]:
    kinds: tuple[Any, ...] = (Job,)
    for name in pointer.strip("/").split("/"):
        kinds = tuple(
            _annotated(kind, name)
            for part in kinds
            for kind in _parts(part)
            if name in kind.model_fields
        )
        if not kinds:
            raise LookupError(f"a job has no field {pointer}")
    return TypeAdapter(reduce(or_, kinds))


def _annotated(kind: type[Part], name: str) -> Any:
    field = kind.model_fields[name]
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _parts(annotation: Any) -> Iterator[type[Part]]:
    """The parts of a job that a value of this type may be."""
    origin = get_origin(annotation)
    if isinstance(annotation, TypeAliasType):
        yield from _parts(annotation.__value__)
    elif origin is Annotated:
        yield from _parts(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _parts(member)
    elif (
        annotation is not NoneType and isinstance(annotation, type) and issubclass(annotation, Part)
    ):
        yield annotation


def named_as_fields(patch: Mapping[str, Any], kinds: Sequence[Any] = (Job,)) -> dict[str, Any]:
    """A part of a job with every field under its own name, whichever it is given by."""
    parts = [each for kind in kinds for each in _parts(kind)]
    names = {
        alias: name
        for part in parts
        for name, field in part.model_fields.items()
        if isinstance(field.validation_alias, AliasChoices)
        for alias in field.validation_alias.choices
    }
    result: dict[str, Any] = {}
    for key, value in patch.items():
        name = names.get(key, key)
        if isinstance(value, dict):
            fields = [each.model_fields[name] for each in parts if name in each.model_fields]
            value = named_as_fields(value, [each.annotation for each in fields])
        result[name] = value
    return result
