"""The OpenAPI document: valid, complete, and the same bytes in the repository and on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from openapi_spec_validator import OpenAPIV31SpecValidator

from tools.openapi import DOCUMENT, served
from trainfit.api.app import create_app
from trainfit.api.settings import ServiceSettings

OPERATIONS = {
    "estimate": ("post", "/v1/estimate"),
    "estimateBatch": ("post", "/v1/estimate:batch"),
    "fitCheck": ("post", "/v1/fit-check"),
    "compare": ("post", "/v1/compare"),
    "search": ("post", "/v1/search"),
    "jobFromLaunch": ("post", "/v1/jobs:from-launch"),
    "jobDraft": ("post", "/v1/jobs:draft"),
    "jobToLaunch": ("post", "/v1/jobs:to-launch"),
    "ledger": ("post", "/v1/ledger"),
    "trace": ("post", "/v1/trace"),
    "traceSnapshot": ("post", "/v1/trace:snapshot"),
    "measurementsFromLogs": ("post", "/v1/measurements:from-logs"),
    "reconcile": ("post", "/v1/reconcile"),
    "fitCalibration": ("post", "/v1/calibrations:fit"),
    "admission": ("post", "/v1/admission"),
    "enforceAdmission": ("post", "/v1/admission/enforce"),
    "resolveModel": ("post", "/v1/models:resolve"),
    "listModels": ("get", "/v1/models"),
    "listGpus": ("get", "/v1/gpus"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(served())
    return content


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_document_kept_is_the_one_served() -> None:
    assert DOCUMENT.read_bytes() == served(), "run `make openapi`"


async def test_it_is_served_byte_for_byte() -> None:
    app = create_app(ServiceSettings())
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        for _ in range(2):
            response = await client.get("/openapi.json")
            assert response.headers["content-type"] == "application/json"
            assert response.content == DOCUMENT.read_bytes()


def test_it_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_operations_and_their_ids_are_those_promised(document: dict[str, Any]) -> None:
    found = {
        operation["operationId"]: (method, path) for method, path, operation in operations(document)
    }
    assert found == OPERATIONS


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    assert all(tag["description"] for tag in document["tags"])
    for _, _, operation in operations(document):
        assert operation["summary"]
        assert operation["description"]
        assert set(operation["tags"]) <= tags
    assert document["servers"] == [{"url": "/"}]
    assert document["info"]["license"]["identifier"] == "Apache-2.0"


def test_a_key_may_be_sent_to_every_operation(document: dict[str, Any]) -> None:
    (scheme,) = document["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert document["security"] == [{"apiKey": []}, {}]
    assert not any("security" in operation for _, _, operation in operations(document))


def test_every_error_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        errors = {
            status: response
            for status, response in operation["responses"].items()
            if not status.startswith("2")
        }
        assert {"401", "429", "500", "503"} <= errors.keys()
        assert "WWW-Authenticate" in errors["401"]["headers"]
        assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= errors["429"]["headers"].keys()
        assert "Retry-After" in errors["503"]["headers"]
        for response in errors.values():
            assert response["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
    posted = [operation for method, _, operation in operations(document) if method == "post"]
    for operation in posted:
        invalid = set() if operation["tags"] == ["admission"] else {"422"}
        assert {"400", "408", "413", "415", *invalid} <= operation["responses"].keys()


def test_a_job_shows_examples(document: dict[str, Any]) -> None:
    content = document["paths"]["/v1/estimate"]["post"]["requestBody"]["content"]
    assert list(content) == ["application/json"]
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/JobOrLaunch"}
    assert document["components"]["schemas"]["JobOrLaunch"]["oneOf"] == [
        {"$ref": "#/components/schemas/Job"},
        {"$ref": "#/components/schemas/LaunchedJob"},
    ]
    assert len(content["application/json"]["examples"]) >= 2


def test_a_job_inside_a_request_or_an_answer_is_described_as_one(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("NamedJob", "EstimateAnswer", "FitCheckAnswer"):
        assert schemas[name]["properties"]["job"]["allOf"] == [{"$ref": "#/components/schemas/Job"}]


def test_unknown_fields_of_a_job_are_refused_by_the_schema_too(document: dict[str, Any]) -> None:
    assert document["components"]["schemas"]["Job"]["additionalProperties"] is False
    assert document["components"]["schemas"]["Parallelism"]["additionalProperties"] is False
    assert "additionalProperties" not in document["components"]["schemas"]["Estimate"]


def numbers(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a number in a part of the document, and where it stands."""
    if isinstance(node, list):
        for index, each in enumerate(node):
            yield from numbers(each, f"{where}/{index}")
    elif isinstance(node, dict):
        if node.get("type") in ("integer", "number"):
            yield where, node
        for name, each in node.items():
            yield from numbers(each, f"{where}/{name}")


def test_every_number_says_what_holds_it(document: dict[str, Any]) -> None:
    """Generated clients have 32 bits for an integer without a format; one card has more bytes."""
    formats = {"integer": "int64", "number": "double"}
    found = dict(numbers(document))
    assert [at for at, each in found.items() if each.get("format") != formats[each["type"]]] == []
    for name in ("Interval/properties/low", "Parameters/properties/by_bucket/additionalProperties"):
        assert f"/components/schemas/{name}" in found


def test_bounds_of_integers_are_integers(document: dict[str, Any]) -> None:
    """A client in a typed language compares them with one."""
    bounds = [
        value
        for _, schema in numbers(document)
        if schema["type"] == "integer"
        for name, value in schema.items()
        if name in ("minimum", "maximum")
    ]
    assert {type(bound) for bound in bounds} == {int}


def test_no_schema_has_a_default(document: dict[str, Any]) -> None:
    """openapi-typescript makes a field that has to be sent of one with a default."""
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for field, value in schema.get("properties", {}).items():
            assert "default" not in value, f"{name}.{field}"
    seq_length = schemas["Training"]["properties"]["seq_length"]
    assert seq_length["x-default"] == 4096
    assert seq_length["description"].endswith(" Default: 4096.")


def nested(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema within a part of the document, but not that part itself."""
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(each, dict):
            yield each
        yield from nested(each)


def test_every_union_and_every_arm_of_one_has_a_name(document: dict[str, Any]) -> None:
    """A client's types are named after them; what is not named is Question1 or Gpu2."""
    schemas = document["components"]["schemas"]
    null = {"type": "null"}
    for schema in schemas.values():
        arms = schema.get("oneOf", schema.get("anyOf", []))
        assert all("$ref" in each for each in arms)
    for within in (*schemas.values(), document["paths"]):
        for part in nested(within):
            arms = [each for each in part.get("anyOf", part.get("oneOf", [])) if each != null]
            assert len(arms) < 2
            assert len(part.get("enum", [])) < 2
    assert schemas["JobGpu"]["oneOf"][1] == {"$ref": "#/components/schemas/CustomGpu"}


def test_no_schema_is_called_as_generators_call_an_operation_s_parameters(
    document: dict[str, Any],
) -> None:
    taken = {
        f"{operation['operationId']}{part}".lower()
        for _, _, operation in operations(document)
        for part in ("Request", "Response")
    }
    assert [each for each in document["components"]["schemas"] if each.lower() in taken] == []


def test_every_byte_figure_says_so(document: dict[str, Any]) -> None:
    """Memory is never given without its unit, and never in anything but bytes."""
    for schema in document["components"]["schemas"].values():
        for name in schema.get("properties", {}):
            assert not name.endswith(("_gib", "_mib", "_kb", "_mb"))
