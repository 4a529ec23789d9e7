"""What was released keeps working: the document served breaks nothing of openapi/released.json.

A change that must break it goes with a new major version, and with
`python -m tools.breaking --release`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tools.breaking import RELEASED, breaking_changes
from tools.openapi import served

Document = dict[str, Any]


@pytest.fixture(scope="module")
def released() -> Document:
    document: Document = json.loads(RELEASED.read_bytes())
    return document


def test_the_document_served_breaks_nothing_of_the_released(released: Document) -> None:
    assert breaking_changes(released, json.loads(served())) == []


def schema(document: Document, name: str) -> Document:
    found: Document = document["components"]["schemas"][name]
    return found


def operation(document: Document) -> Document:
    found: Document = document["paths"]["/v1/estimate"]["post"]
    return found


BREAKING: dict[str, tuple[Callable[[Document], object], str]] = {
    "a path goes": (lambda d: d["paths"].pop("/v1/gpus"), "GET /v1/gpus: removed"),
    "an operation is renamed": (
        lambda d: operation(d).update(operationId="price"),
        "POST /v1/estimate: operationId changed",
    ),
    "a parameter goes": (
        lambda d: operation(d).update(parameters=[]),
        "POST /v1/estimate: parameter activations removed",
    ),
    "a parameter is needed": (
        lambda d: operation(d)["parameters"].append(
            {"name": "key", "in": "query", "required": True, "schema": {"type": "string"}}
        ),
        "POST /v1/estimate: parameter key is new and required",
    ),
    "a status goes": (
        lambda d: operation(d)["responses"].pop("413"),
        "POST /v1/estimate: status 413 removed",
    ),
    "a field of a request goes": (
        lambda d: schema(d, "Parallelism")["properties"].pop("tp"),
        "POST /v1/estimate request/parallelism/tp: removed",
    ),
    "a field of a request is needed": (
        lambda d: schema(d, "Job")["required"].append("gpu"),
        "POST /v1/estimate request/gpu: now required",
    ),
    "a value of a request goes": (
        lambda d: schema(d, "Megatron")["properties"]["transformer_impl"]["enum"].remove("local"),
        'POST /v1/estimate request/framework/transformer_impl: "local" no longer taken',
    ),
    "a type of a request goes": (
        lambda d: schema(d, "Job")["properties"]["gpu"]["anyOf"].pop(0),
        "POST /v1/estimate request/gpu: string no longer taken",
    ),
    "a framework goes": (
        lambda d: schema(d, "Job")["properties"]["framework"]["oneOf"].pop(1),
        "POST /v1/estimate request/framework: object torchtitan no longer taken",
    ),
    "a field of an answer goes": (
        lambda d: schema(d, "Stage")["properties"].pop("peak"),
        "POST /v1/estimate 200/stages/*/peak: removed",
    ),
    "a field of an answer may be missing": (
        lambda d: schema(d, "Stage")["required"].remove("peak"),
        "POST /v1/estimate 200/stages/*/peak: no longer always given",
    ),
    "a field of an answer may be null": (
        lambda d: schema(d, "Interval")["properties"].update(
            low={"anyOf": [{"type": "integer"}, {"type": "null"}]}
        ),
        "POST /v1/estimate 200/stages/*/allocated_bytes/low: null is new",
    ),
    "a text must be a date": (
        lambda d: schema(d, "Megatron")["properties"]["transformer_impl"].update(format="date"),
        "POST /v1/estimate request/framework/transformer_impl: format date now required",
    ),
}


@pytest.mark.parametrize(("change", "told"), BREAKING.values(), ids=BREAKING)
def test_what_breaks_a_client_is_told(
    released: Document, change: Callable[[Document], object], told: str
) -> None:
    changed = deepcopy(released)
    change(changed)
    assert told in breaking_changes(released, changed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda low: low.pop("format"), "format int64 removed"),
        (lambda low: low.update(format="int32"), "format int64 became int32"),
    ],
)
def test_so_is_a_number_that_loses_bits(change: Callable[[Document], object], told: str) -> None:
    before: Document = json.loads(served())
    after = deepcopy(before)
    change(schema(after, "Interval")["properties"]["low"])
    where = "POST /v1/estimate 200/stages/*/allocated_bytes/low"
    assert f"{where}: {told}" in breaking_changes(before, after)


HARMLESS: dict[str, Callable[[Document], object]] = {
    "nothing": lambda _: None,
    "a new path": lambda d: d["paths"].update({"/v1/new": d["paths"]["/v1/gpus"]}),
    "a new field of a request": lambda d: schema(d, "Job")["properties"].update(
        note={"type": "string"}
    ),
    "a new field of an answer": lambda d: schema(d, "Stage")["properties"].update(
        note={"type": "string"}
    ),
    "a new value of a request": lambda d: schema(d, "Megatron")["properties"]["transformer_impl"][
        "enum"
    ].append("inference"),
    "another kind of a part": lambda d: schema(d, "Training")["properties"].update(
        peft={
            "anyOf": [
                {"oneOf": [{"$ref": "#/components/schemas/Peft"}, {"type": "object"}]},
                {"type": "null"},
            ]
        }
    ),
    "a number gains the format that holds it": lambda d: schema(d, "Parallelism")["properties"][
        "tp"
    ].update(format="int64"),
    "another description": lambda d: schema(d, "Job").update(description="A run."),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_breaks_nothing_is_let_through(
    released: Document, change: Callable[[Document], object]
) -> None:
    changed = deepcopy(released)
    change(changed)
    assert breaking_changes(released, changed) == []
