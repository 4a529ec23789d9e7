"""Whatever the OpenAPI document allows, and much that it does not, is sent to a live service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import Service, running_service
from tools.openapi import DOCUMENT

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
OPERATIONS = {
    operation["operationId"]: "requestBody" in operation
    for path in json.loads(DOCUMENT.read_text())["paths"].values()
    for operation in path.values()
}
"""Whether each takes a body."""
READ_A_JOB = {
    *("fitCheck", "compare", "estimateBatch", "ledger", "jobToLaunch", "search"),
    *("trace", "traceSnapshot"),
}
"""Read the same job as `estimate`, where each of its fields is given each kind of wrong value."""
CASES = 60
"""At least so many are sent where there is a body, which can be wrong in more ways than these."""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with running_service(TRAINFIT_LOG_LEVEL="error") as service:
        yield service


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_answered_with_a_fault_or_an_undocumented_status(
    service: Service, operation: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
    command += ["--include-operation-id", operation]
    phases = "examples,fuzzing" if operation in READ_A_JOB else "examples,coverage,fuzzing"
    command += ["--phases", phases, "--checks", ",".join(CHECKS)]
    command += ["--max-examples", "60", "--seed", "1", "--no-color"]
    # Each test begins anew, and a request looks through all variables for those of a proxy.
    command += ["--generation-database", "none"]
    environment = {"PATH": os.environ["PATH"]}
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert result.returncode == 0, result.stdout + result.stderr
    answered = statuses(service, operation)
    assert answered["200"]
    assert not [status for status in answered if status.startswith("5")]
    if OPERATIONS[operation]:
        assert answered.total() >= CASES


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
