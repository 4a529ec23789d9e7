"""Names in the OpenAPI document, which become the types of generated clients."""

import json
from collections.abc import Iterator
from typing import Any

PREFIX = "#/components/schemas/"
KINDS = {
    "array": "List",
    "boolean": "Flag",
    "integer": "Integer",
    "null": "Nothing",
    "number": "Number",
    "object": "Map",
    "string": "Text",
}
"""What an arm of a union is called behind the union's name; one of several words is a Choice."""
SAID = ("description", "examples", "x-default", "x-frameworks", "x-frameworks-by-value")
"""What is said of a field, and not of the type that it has."""
VALUES = ("const", "default", "enum", "example", "examples", "x-default")
"""Keywords whose values are no schemas."""


def rename_messages(document: dict[str, Any]) -> None:
    """Call no schema as generators call what goes into an operation and comes out of it: fitCheck
    takes a FitCheckRequest in typescript-fetch, so what is asked is a FitCheckQuestion.
    """
    schemas = document["components"]["schemas"]
    renamed = {
        f"{_capital(each['operationId'])}{theirs}": f"{_capital(each['operationId'])}{ours}"
        for each in _operations(document)
        for theirs, ours in (("Request", "Question"), ("Response", "Answer"))
    }
    for part in _schemas_in(document):
        name = part.get("$ref", "").removeprefix(PREFIX)
        if name in renamed:
            part["$ref"] = PREFIX + renamed[name]
        mapping = part.get("discriminator", {}).get("mapping", {})
        assert not any(each.removeprefix(PREFIX) in renamed for each in mapping.values())
    for name in schemas.keys() & renamed.keys():
        schemas[name]["title"] = renamed[name]
    document["components"]["schemas"] = {
        renamed.get(name, name): schema for name, schema in schemas.items()
    }


def name_types(document: dict[str, Any]) -> None:
    """Give every union, every arm of one and every list of words a schema of its own in the
    document, so that no generator makes up Gpu1 and Verdict4, and what is equal is one type.
    """
    schemas = document["components"]["schemas"]
    for operation in _operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content["schema"] = _replaced(content["schema"], "", operation["operationId"], schemas)
        for each in operation.get("parameters", ()):
            owner = _capital(operation["operationId"])
            each["schema"] = _replaced(each["schema"], owner, each["name"], schemas)
    for owner, schema in list(schemas.items()):
        _name_within(schema, owner, "", schemas)
    for name, schema in list(schemas.items()):
        if _is_union(schema):
            _name_arms(name, schema, schemas)


def _name_within(part: Any, owner: str, field: str, schemas: dict[str, Any]) -> None:
    """Replace what is to have a name, within a field of a schema, by references."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            part[index] = _replaced(each, owner, field, schemas)
    elif isinstance(part, dict):
        for key, inner in part.items():
            if key == "properties":
                for name, each in inner.items():
                    inner[name] = _replaced(each, owner, name, schemas)
            elif key not in VALUES and isinstance(inner, dict | list):
                part[key] = _replaced(inner, owner, field, schemas)


def _replaced(part: Any, owner: str, field: str, schemas: dict[str, Any]) -> Any:
    if not isinstance(part, dict):
        _name_within(part, owner, field, schemas)
        return part
    kinds = [each for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) > 1 and len(kinds) < len(part["anyOf"]):
        union = {"title": part.get("title", ""), "oneOf": kinds}
        part["anyOf"] = [_replaced(union, owner, field, schemas), {"type": "null"}]
        return part
    if not _is_union(part):
        _name_within(part, owner, field, schemas)
    if _is_union(part) or len(part.get("enum", ())) > 1:
        return _named(part, owner, field, schemas)
    return part


def _named(
    schema: dict[str, Any], owner: str, field: str, schemas: dict[str, Any]
) -> dict[str, Any]:
    """A reference to a schema of its own, with what is said of this use of it. It is called by its
    title or its field, and where that is taken by its owner, too.
    """
    said = {key: schema[key] for key in SAID if key in schema}
    whole = {key: value for key, value in schema.items() if key not in (*SAID, "title")}
    title = str(schema.get("title", ""))
    first = title if title.isidentifier() and title[0].isupper() else _pascal(field)
    names = [first, f"{owner}{_pascal(field)}"]
    alike = (each for each in schemas if each.endswith(_pascal(field)) or each == first)
    known = next((each for each in alike if _untitled(schemas[each]) == whole), None)
    name = known or next(each for each in names if each not in schemas)
    if known is None:
        schemas[name] = {**whole, "title": name}
    return {"$ref": PREFIX + name, **said}


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema as it was before it had its own name."""
    return {key: value for key, value in schema.items() if key != "title"}


def _name_arms(union: str, schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    arms = schema.get("oneOf", schema.get("anyOf", ()))
    written = list(arms)
    for index, arm in enumerate(written):
        if "$ref" in arm or arm.get("type") == "null":
            continue
        if "const" in arm and any(each.get("type") == "array" for each in written):
            # Of a constant beside a list typescript-fetch makes no code that compiles.
            arm["pattern"] = f"^{arm.pop('const')}$"
        kind = "Choice" if "enum" in arm else KINDS[arm["type"]]
        name = f"{union}{kind}"
        schemas[name] = {**arm, "title": name}
        arms[index] = {"$ref": PREFIX + name}


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _is_union(schema: dict[str, Any]) -> bool:
    """Whether a value is of one of several kinds, none of which is null."""
    arms = schema.get("oneOf", schema.get("anyOf", ()))
    return len(arms) > 1 and all(each.get("type") != "null" for each in arms)


def say_defaults(schemas: dict[str, Any], asked: set[str]) -> None:
    """Tell the defaults of questions in words, and in an extension: of a field with a default,
    openapi-typescript makes one that has to be sent.
    """
    for name, schema in schemas.items():
        for field in schema.get("properties", {}).values():
            default = field.pop("default", None)
            if default is not None and name in asked:
                field["x-default"] = default
                said = f"Default: {json.dumps(default)}."
                field["description"] = f"{field.get('description', '')} {said}".strip()


def _schemas_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for key, each in part.items():
            if key not in VALUES:
                yield from _schemas_in(each)
    elif isinstance(part, list):
        for each in part:
            yield from _schemas_in(each)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _pascal(name: str) -> str:
    return "".join(map(_capital, name.split("_")))
