"""The description of the API that is served, published and tested: the same bytes everywhere."""

import json
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter

from trainfit.api.kinds import OVERLOADED
from trainfit.api.operation import OperationRoute
from trainfit.api.schema_names import VALUES, name_types, rename_messages, say_defaults
from trainfit.questions.kinds import HUB_ANSWER, HUB_TIMEOUT, ProblemKind
from trainfit.questions.problems import Problem

SUMMARY = "How much GPU memory every rank of an LLM training run will need, before it starts."
DESCRIPTION = (
    "A job has five parts: a model, its layout over GPUs, a training step, a framework and a card. "
    "The answer is memory per pipeline rank, in bytes. Unknown fields of a request are refused; "
    "clients must tolerate fields of an answer that they do not know. Every error is a problem "
    "(RFC 9457) whose type is the path of a page that explains it."
)
CONTACT = {"name": "Whoever runs this service"}
TAGS = [
    {"name": "estimates", "description": "The memory that a job needs."},
    {"name": "launches", "description": "The launch files that a team already has."},
    {"name": "decisions", "description": "Whether a job fits, and how jobs differ."},
    {"name": "measurements", "description": "What runs have reported."},
    {"name": "admission", "description": "Jobs on their way into a Kubernetes cluster."},
    {"name": "catalogues", "description": "The models and GPUs that are known by name."},
]
RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "Bearer.", "schema": {"type": "string"}}},
    429: RETRY_AFTER
    | {
        "RateLimit-Policy": {
            "description": "Requests (q) in so many seconds (w).",
            "schema": {"type": "string"},
        },
        "RateLimit": {
            "description": "Requests that are left (r), and seconds until all are back (t).",
            "schema": {"type": "string"},
        },
    },
    **dict.fromkeys((OVERLOADED.status, HUB_ANSWER.status, HUB_TIMEOUT.status), RETRY_AFTER),
}
"""What a problem of a status says in headers."""
API_KEY = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that the operator of the service gives out, where one is needed.",
    }
}
SIGNED: dict[int | str, dict[str, Any]] = {
    200: {
        "headers": {
            "ETag": {"description": "The request_digest, quoted.", "schema": {"type": "string"}}
        }
    }
}
"""An answer that carries its digest."""
PROBLEM_SCHEMA = {"$ref": "#/components/schemas/Problem"}
FORMATS = {"integer": "int64", "number": "double"}
"""What holds a number. Without it, generated clients take an integer to have 32 bits; all have 64,
so that a bound that rises changes no client's types.
"""
BOUNDS = ("minimum", "maximum")


def problem_responses(*kinds: ProblemKind) -> dict[int | str, dict[str, Any]]:
    """The problems that an operation may answer with, by status."""
    responses: dict[int | str, dict[str, Any]] = {}
    for status in sorted({kind.status for kind in kinds}):
        titles = [kind.title for kind in kinds if kind.status == status]
        responses[status] = {
            "description": "; ".join(titles),
            "content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}},
        }
        if status in HEADERS:
            responses[status]["headers"] = HEADERS[status]
    return responses


def openapi_bytes(app: FastAPI) -> bytes:
    """The document as it is served and kept in openapi/openapi.json."""
    for route in app.routes:
        if isinstance(route, OperationRoute):
            route.describe()
    document = app.openapi()
    _forget_unused_errors(document)
    schema = TypeAdapter(Problem).json_schema(
        ref_template="#/components/schemas/{model}", mode="serialization"
    )
    document["components"]["schemas"] |= {**schema.pop("$defs"), "Problem": schema}
    document["components"]["securitySchemes"] = API_KEY
    # The same bytes everywhere, whether keys are set or not: a key may be sent, or nothing.
    document["security"] = [{scheme: []} for scheme in API_KEY] + [{}]
    document["info"]["contact"] = CONTACT
    asked = _asked(document)
    _require_what_is_always_sent(document["components"]["schemas"], asked)
    say_defaults(document["components"]["schemas"], asked)
    _suit_generators(document)
    name_types(document)
    rename_messages(document)
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _forget_unused_errors(document: dict[str, Any]) -> None:
    """Take out FastAPI's own 422, which it describes wherever an operation has none."""
    for methods in document["paths"].values():
        for operation in methods.values():
            invalid = operation["responses"].get("422", {"content": {}})
            if "application/json" in invalid["content"]:
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def _asked(document: dict[str, Any]) -> set[str]:
    """The schemas that questions are made of."""
    asked: set[str] = set()
    for methods in document["paths"].values():
        for operation in methods.values():
            body = operation.get("requestBody", {})
            asked |= _named_in(body, document["components"]["schemas"], asked)
    return asked


def _require_what_is_always_sent(schemas: dict[str, Any], asked: set[str]) -> None:
    """An answer has all its fields, those with a default among them: only who asks may leave some
    out.
    """
    for name, schema in schemas.items():
        if name not in asked and "properties" in schema:
            schema["required"] = list(schema["properties"])


def _named_in(part: Any, schemas: dict[str, Any], known: set[str]) -> set[str]:
    """The schemas that a part of the document names, and those that these name."""
    if isinstance(part, list):
        return set().union(*[_named_in(each, schemas, known) for each in part])
    if not isinstance(part, dict):
        return set()
    found: set[str] = set()
    name = str(part.get("$ref", "")).rpartition("/")[2]
    if name and name not in known:
        known.add(name)
        found = {name} | _named_in(schemas[name], schemas, known)
    return found.union(*[_named_in(each, schemas, known) for each in part.values()])


def _suit_generators(part: Any) -> None:
    """Say in every schema of a part of the document what generators of clients need to know."""
    if isinstance(part, list):
        for each in part:
            _suit_generators(each)
    elif isinstance(part, dict):
        _say_format(part)
        _tell_apart(part)
        for name, inner in part.items():
            if name == "properties":
                _suit_generators(list(inner.values()))
            elif name not in VALUES:
                _suit_generators(inner)


def _say_format(schema: dict[str, Any]) -> None:
    """Give a number the format that holds it; bounds of integers, of which FastAPI makes floats,
    are integers.
    """
    kind = schema.get("type")
    if kind in FORMATS:
        schema["format"] = FORMATS[kind]
    if kind == "integer":
        schema |= {name: int(schema[name]) for name in BOUNDS if name in schema}


def _tell_apart(schema: dict[str, Any]) -> None:
    """Say that a value is of one kind of a union alone, where their types differ: of an anyOf,
    generators for Rust make an object with the fields of all kinds, which is no text or number.
    """
    kinds = schema.get("anyOf", ())
    types = [each.get("type", "object" if "$ref" in each else None) for each in kinds]
    if len(types) > 1 and "null" not in types and None not in types and len({*types}) == len(types):
        schema["oneOf"] = schema.pop("anyOf")
