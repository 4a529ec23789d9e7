"""Walks Pydantic's error locations along the types of a request.

A location names fields and indices, but also the branches of unions, which are nothing that a
caller wrote. Only the types tell one from the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from trainfit.documents.json_pointer import json_pointer

KEY_OF_A_MEMBER = "[key]"
"""How Pydantic names the key of a mapping, as opposed to its value."""


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where in a request something is wrong.

    `owner` is the model whose field the last name would be; `unions` are the pointers at which a
    union had to be decided on the way; `of_branch` says that the error is about one of its
    branches as a whole.
    """

    pointer: str
    owner: type[BaseModel] | None
    unions: tuple[str, ...]
    of_branch: bool


def place(root: Any, location: Sequence[str | int]) -> FieldPlace:
    """The place that a location names in a value of the type `root`."""
    path: list[str | int] = []
    unions: list[str] = []
    annotation, owner, of_branch = root, None, False
    for part in location:
        kinds = tuple(_kinds(annotation))
        of_branch = len(kinds) > 1
        if of_branch:
            unions.append(json_pointer(path))
            annotation = _branch(kinds, str(part))
        elif part != KEY_OF_A_MEMBER:
            owner, annotation = _within(kinds[0] if kinds else Any, part)
            path.append(part)
    return FieldPlace(json_pointer(path), owner, tuple(unions), of_branch)


@cache
def accepted_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Every name that a field of the model may be given under, and the field's own name."""
    return {
        alias: name for name, field in model.model_fields.items() for alias in _aliases(name, field)
    }


@cache
def homes(root: Any) -> Mapping[str, tuple[str, ...]]:
    """Names of fields anywhere in a type, and the pointers of the parts that take each."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in filter(_is_model, _kinds(root)):
        found |= {name: ("", *found.get(name, ())) for name in accepted_names(kind)}
        for field_name, field in kind.model_fields.items():
            for name, pointers in homes(field.annotation).items():
                below = tuple(f"/{field_name}{pointer}" for pointer in pointers)
                found[name] = found.get(name, ()) + below
    return found


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, null left aside."""
    origin = get_origin(annotation)
    if isinstance(annotation, TypeAliasType):
        yield from _kinds(annotation.__value__)
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for member in get_args(annotation):
            yield from _kinds(member)
    elif annotation is not NoneType:
        yield annotation


def _branch(kinds: Sequence[Any], label: str) -> Any:
    """The member of a union that Pydantic gives this label: a class, a tag or a list."""
    for kind in kinds:
        if _is_model(kind):
            tags = (
                tag for field in kind.model_fields.values() for tag in get_args(field.annotation)
            )
            if label == kind.__name__ or label in tags:
                return kind
        elif get_origin(kind) is tuple and label.startswith("tuple["):
            return kind
    return Any


def _within(kind: Any, part: str | int) -> tuple[type[BaseModel] | None, Any]:
    """The model that `part` is a field of, if any, and the type of what is there."""
    if _is_model(kind):
        name = accepted_names(kind).get(str(part))
        return kind, kind.model_fields[name].annotation if name is not None else Any
    return None, get_args(kind)[0] if get_origin(kind) is tuple else Any


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _aliases(name: str, field: FieldInfo) -> Sequence[str]:
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [name]
