"""Which frameworks honour a field of a job, said where the field is. What is refused, what an
answer remarks on and what the OpenAPI document says of it derive from that.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from trainfit.specs.framework import FrameworkName

Frameworks = tuple[FrameworkName, ...]

ALL: Frameworks = get_args(FrameworkName)
MEGATRON: Frameworks = ("megatron",)
PYTORCH: Frameworks = ("torchtitan", "transformers")


def all_but(*names: FrameworkName) -> Frameworks:
    """Every framework but these."""
    return tuple([name for name in ALL if name not in names])


@dataclass(frozen=True, slots=True)
class Only:
    """Metadata of a field that these frameworks alone honour. Under another one a value that is not
    the default is refused as not modelled or, where it is `ignored` since it changes no memory
    there, remarked on in the answer. So is not a `neutral` value, which asks for nothing.
    """

    frameworks: Frameworks
    ignored: bool = False
    neutral: int | None = None

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "x-frameworks": list(self.frameworks)}


@dataclass(frozen=True, slots=True)
class OnlyValues:
    """Metadata of a field some values of which one or some frameworks honour. Under another one
    they are refused as not modelled.
    """

    frameworks: Mapping[str, Frameworks]

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        named = {value: list(frameworks) for value, frameworks in self.frameworks.items()}
        return {**handler(schema), "x-frameworks-by-value": named}


OF_MEGATRON = Only(MEGATRON)
OF_PYTORCH = Only(PYTORCH)
OUTSIDE_NANOTRON = Only(all_but("nanotron"))
FOLLOWED_OUTSIDE_NANOTRON = Only(all_but("nanotron"), neutral=0)
OF_TRANSFORMERS = Only(("transformers",))
OF_TORCHTITAN = Only(("torchtitan",))
IGNORED_OUTSIDE_MEGATRON = Only(MEGATRON, ignored=True)
BY_HEADS = Only(("megatron", "transformers"), ignored=True)
IGNORED_UNDER_MEGATRON = Only(PYTORCH, ignored=True)
IGNORED_WITHOUT_PIPELINES = Only(("megatron", "torchtitan"), ignored=True)


class Limited(NamedTuple):
    """A field that not every framework honours, by the names that lead to it; `value` reads it from
    the part.
    """

    path: tuple[str, ...]
    default: Any
    only: Only | OnlyValues
    value: Callable[[Any], Any]

    @property
    def pointer(self) -> str:
        return f"/{'/'.join(self.path)}"


@cache
def limited_fields(part: type[BaseModel]) -> tuple[Limited, ...]:
    """The fields of a part, and of those in it, that not every framework honours."""
    return tuple(_limited(part, ()))


def _limited(part: type[BaseModel], path: tuple[str, ...]) -> Iterator[Limited]:
    for name, field in part.model_fields.items():
        for each in field.metadata:
            if isinstance(each, Only | OnlyValues):
                to_field = (*path, name)
                default = field.get_default(call_default_factory=True)
                yield Limited(to_field, default, each, attrgetter(".".join(to_field)))
        for inner in _parts(field.annotation):
            yield from _limited(inner, (*path, name))


def _parts(kind: Any) -> Iterator[type[BaseModel]]:
    """The parts that a type is one of."""
    if get_origin(kind) is Annotated:
        yield from _parts(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _parts(each)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
