"""What a change to the OpenAPI document breaks for those who use the released contract.

Schemas are compared where operations use them, whatever they are called: a client sees names of
fields, not of components.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.openapi import served

RELEASED = Path(__file__).parents[1] / "openapi" / "released.json"
JOB = {"$ref": "#/components/schemas/Job"}
"""In an answer it is the one that was sent: it takes new values when a request does."""
WIDEST = {"int64", "double"}
"""Formats that hold every number of the API: a field that gains one takes what it took before."""

Schema = Mapping[str, Any]


def breaking_changes(released: Schema, current: Schema) -> list[str]:
    """Each thing that a client of the released contract relied on and that is gone."""
    comparison = _Comparison(released, current)
    return sorted(set(comparison.paths()))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A walk through both documents at once. `seen` ends it where schemas refer to themselves."""

    released: Schema
    current: Schema
    seen: set[tuple[str, str, bool]] = field(default_factory=set)

    def paths(self) -> Iterator[str]:
        for path, methods in self.released["paths"].items():
            for method, old in methods.items():
                where = f"{method.upper()} {path}"
                new = self.current["paths"].get(path, {}).get(method)
                if new is None:
                    yield f"{where}: removed"
                else:
                    yield from self._operation(where, old, new)

    def _operation(self, where: str, old: Schema, new: Schema) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{where}: operationId changed"
        parameters = {each["name"]: each for each in new.get("parameters", ())}
        for each in old.get("parameters", ()):
            if each["name"] not in parameters:
                yield f"{where}: parameter {each['name']} removed"
        known = {each["name"] for each in old.get("parameters", ())}
        for name in sorted(parameters.keys() - known):
            if parameters[name].get("required"):
                yield f"{where}: parameter {name} is new and required"
        body = _content(old.get("requestBody", {}))
        yield from self._schema(
            f"{where} request", body, _content(new.get("requestBody", {})), sent=True
        )
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{where}: status {status} removed"
            else:
                answer = _content(new["responses"][status])
                yield from self._schema(f"{where} {status}", _content(response), answer, sent=False)

    def _schema(self, where: str, old: Schema, new: Schema, *, sent: bool) -> Iterator[str]:
        if not sent and old.get("allOf") == [JOB]:
            return
        pair = (old.get("$ref", ""), new.get("$ref", ""), sent)
        if all(pair[:2]):
            if pair in self.seen:
                return
            self.seen.add(pair)
        old, new = _resolved(old, self.released), _resolved(new, self.current)
        if sent and "properties" in old and (kinds := _union(new)):
            # What is sent as before is still taken by one of them.
            changes = [list(self._schema(where, old, each, sent=sent)) for each in kinds]
            yield from min(changes, key=len)
            return
        yield from self._alternatives(where, old, new, sent=sent)
        if lost := _values(old) - _values(new) if sent else _values(new) - _values(old):
            verb = "no longer taken" if sent else "new in an answer"
            if _values(old) and _values(new):
                yield f"{where}: {', '.join(sorted(lost))} {verb}"
        yield from self._format(where, old.get("format"), new.get("format"), sent=sent)
        fields = new.get("properties", {})
        for name, schema in old.get("properties", {}).items():
            if name not in fields:
                yield f"{where}/{name}: removed"
            else:
                yield from self._schema(f"{where}/{name}", schema, fields[name], sent=sent)
        required = set(new.get("required", ())), set(old.get("required", ()))
        for name in sorted(required[0] - required[1] if sent else required[1] - required[0]):
            if sent or name in fields:
                yield f"{where}/{name}: {'now required' if sent else 'no longer always given'}"
        for inner in ("items", "additionalProperties"):
            if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
                yield from self._schema(f"{where}/*", old[inner], new[inner], sent=sent)

    def _format(self, where: str, old: str | None, new: str | None, *, sent: bool) -> Iterator[str]:
        """A format decides the type that a client has for a value."""
        if old is not None and old != new:
            yield f"{where}: format {old} {'removed' if new is None else f'became {new}'}"
        elif sent and old is None and new is not None and new not in WIDEST:
            yield f"{where}: format {new} now required"

    def _alternatives(self, where: str, old: Schema, new: Schema, *, sent: bool) -> Iterator[str]:
        """Types that a value may have: a request must take all of them still, an answer no other.
        Objects among them are compared one by one.
        """
        olds, news = _kinds(old, self.released), _kinds(new, self.current)
        gone = olds.keys() - news.keys() if sent else news.keys() - olds.keys()
        if gone and olds and news:
            yield f"{where}: {', '.join(sorted(gone))} {'no longer taken' if sent else 'is new'}"
        if len(olds) > 1 or len(news) > 1:
            for kind in sorted(olds.keys() & news.keys()):
                yield from self._schema(where, olds[kind], news[kind], sent=sent)


def _content(part: Schema) -> Schema:
    """The schema of a body, of whichever media type; empty where there is none."""
    return next((each.get("schema", {}) for each in part.get("content", {}).values()), {})


def _resolved(schema: Schema, document: Schema) -> Schema:
    """The schema that a reference, alone or in an allOf of one, stands for."""
    while True:
        if len(schema.get("allOf", ())) == 1:
            (schema,) = schema["allOf"]
        elif "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        else:
            return schema


def _union(schema: Schema) -> Sequence[Schema]:
    kinds: Sequence[Schema] = schema.get("anyOf") or schema.get("oneOf") or ()
    return kinds


def _values(schema: Schema) -> set[str]:
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return {json.dumps(value) for value in values}


def _kinds(schema: Schema, document: Schema) -> dict[str, Schema]:
    """The types of a value by name; objects of a union by what tells them apart."""
    resolved = _resolved(schema, document)
    kinds: dict[str, Schema] = {}
    for each in _union(resolved):
        kinds |= _kinds(each, document)
    if "type" in resolved or "const" in resolved:
        fields = resolved.get("properties", {}).values()
        tag = next((field["const"] for field in fields if "const" in field), "")
        kinds[f"{resolved.get('type', 'string')} {tag}".strip()] = schema
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.breaking", description=__doc__)
    parser.add_argument("--release", action="store_true", help="release what is served now")
    if parser.parse_args().release:
        RELEASED.write_bytes(served())
        return
    for change in breaking_changes(json.loads(RELEASED.read_bytes()), json.loads(served())):
        print(change)


if __name__ == "__main__":
    main()
