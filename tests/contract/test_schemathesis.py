"""Whatever the OpenAPI document allows, and much that it does not, is sent to a live service."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.fuzzers import Fuzzer, loaded_fuzzer
from tests.serving import Service, running_service
from tools.openapi import DOCUMENT
from trainfit.api.examples import LAUNCH_EXAMPLES, RECONCILE_EXAMPLES

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
OPENAPI: dict[str, Any] = json.loads(DOCUMENT.read_text())
OPERATIONS = {
    operation["operationId"]: "requestBody" in operation
    for path in OPENAPI["paths"].values()
    for operation in path.values()
}
"""Whether each takes a body."""
READ_A_JOB = {
    *("fitCheck", "compare", "estimateBatch", "ledger", "jobToLaunch", "search"),
    *("trace", "traceSnapshot"),
}
"""Read the same job as `estimate`, where each of its fields is given each kind of wrong value."""
JOB = {*OPENAPI["components"]["schemas"]["Job"]["properties"], "launch"}
READ_MORE = {"reconcile": JOB, "fitCalibration": {*JOB, "run"}}
"""Read a job as well, and of the second a run as the first: each of their other fields is given
each kind of wrong value beside ones that are right.
"""
CASES = 30
"""At least so many are sent where there is a body, which can be wrong in more ways than these."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(TRAINFIT_LOG_LEVEL="error") as service:
        yield service


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with loaded_fuzzer() as fuzzer:
        yield fuzzer


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_answered_with_a_fault_or_an_undocumented_status(
    service: Service, fuzzer: Fuzzer, operation: str, tmp_path: Path
) -> None:
    if operation in READ_MORE:
        document = tmp_path / "openapi.json"
        document.write_text(json.dumps(with_right(READ_MORE[operation])))
        send(fuzzer, service, operation, "coverage", str(document), tmp_path)
    without = operation in READ_A_JOB or operation in READ_MORE
    phases = "examples,fuzzing" if without else "examples,coverage,fuzzing"
    send(fuzzer, service, operation, phases, f"{service.url}/openapi.json", tmp_path)
    answered = statuses(service, operation)
    assert answered["200"]
    assert not [status for status in answered if status.startswith("5")]
    if OPERATIONS[operation]:
        assert answered.total() >= CASES


def send(
    fuzzer: Fuzzer, service: Service, operation: str, phases: str, document: str, folder: Path
) -> None:
    """Send what a document has of an operation, and much that it has not."""
    words = ["run", document, "--url", service.url]
    words += ["--include-operation-id", operation]
    words += ["--phases", phases, "--checks", ",".join(CHECKS)]
    words += ["--max-examples", str(CASES), "--seed", "1", "--no-color"]
    # Each test begins anew, and a request looks through all variables for those of a proxy.
    words += ["--generation-database", "none"]
    status, said = fuzzer.run(words, folder)
    assert status == 0, said


def with_right(names: set[str]) -> dict[str, Any]:
    """The document, where a run that is reconciled has these fields as in an example, or not."""
    document = deepcopy(OPENAPI)
    schemas = document["components"]["schemas"]
    example: Any = RECONCILE_EXAMPLES["megatron"]["value"]
    launch: Any = LAUNCH_EXAMPLES["megatron"]["value"]
    right = {"framework": {"name": "megatron"}, "launch": launch, **example}
    for schema in (schemas["ReconcileQuestion"], schemas["LaunchedReconcile"]):
        for name in names & schema["properties"].keys():
            schema["properties"][name] = {"enum": [right.get(name)]}
    return document


def statuses(service: Service, operation: str) -> Counter[str]:
    """How many answers of each status an operation has given."""
    metrics = httpx.get(f"{service.url}/metrics").text
    return Counter(
        {
            sample.labels["status"]: int(sample.value)
            for family in text_string_to_metric_families(metrics)
            for sample in family.samples
            if sample.name == "trainfit_http_requests_total"
            and sample.labels["operation"] == operation
        }
    )
