"""The fields of a job, as the OpenAPI document defines them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tools.docs.markdown import code, table
from tools.docs.service import OFFLINE
from trainfit.api.app import create_app
from trainfit.api.openapi import openapi_bytes

PREFIX = "#/components/schemas/"

Schema = Mapping[str, Any]


def fields() -> str:
    """A table for each object that a job is made of, the job first."""
    document = json.loads(openapi_bytes(create_app(OFFLINE)))
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    names = ["Job"]
    for name in names:
        for schema in schemas[name]["properties"].values():
            names += [
                each for each in dict.fromkeys(_objects(schema, schemas)) if each not in names
            ]
    return "\n\n".join(f"## {name}\n\n{_rows(schemas[name], schemas)}" for name in names)


def _rows(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    needed = schema.get("required", ())
    rows = (
        [
            code(name),
            _type(field, schemas),
            ", ".join(field.get("x-frameworks", ["all"])),
            f"{'Needed. ' if name in needed else ''}{field.get('description', '')}".strip(),
        ]
        for name, field in schema["properties"].items()
    )
    return table(["field", "takes", "frameworks", "meaning"], rows)


def _objects(schema: Schema, schemas: Mapping[str, Schema]) -> Iterator[str]:
    """The objects with fields that a schema takes, by their names."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(PREFIX)
        if "properties" in schemas[name]:
            yield name
        else:
            yield from _objects(schemas[name], schemas)
    for arm in _arms(schema):
        yield from _objects(arm, schemas)
    if "items" in schema:
        yield from _objects(schema["items"], schemas)


def _type(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    """What a field takes, in words; an object is a link to its table."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(PREFIX)
        has_table = "properties" in schemas[name]
        return f"[{name}](#{name.lower()})" if has_table else _type(schemas[name], schemas)
    arms = [_type(arm, schemas) for arm in _arms(schema)]
    if arms:
        return " or ".join(dict.fromkeys(arms))
    if "enum" in schema or "const" in schema:
        return ", ".join(map(code, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"a list of {_type(schema.get('items', {}), schemas)}"
    kind = {"string": "text", "boolean": "true or false"}.get(schema["type"], schema["type"])
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{kind}, {low} to {high}" if None not in (low, high) else str(kind)


def _arms(schema: Schema) -> list[Schema]:
    """What a schema is one of; that a field may be null goes without saying."""
    arms: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    return [arm for arm in arms if arm.get("type") != "null"]


BLOCKS = {"fields": fields}
