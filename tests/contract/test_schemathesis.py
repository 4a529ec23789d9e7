"""Whatever the OpenAPI document allows, and much that it does not, is sent to a live service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import running_service

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
CASES = 2_000
OPERATIONS = {
    "admission",
    "compare",
    "enforceAdmission",
    "estimate",
    "estimateBatch",
    "fitCheck",
    "jobFromLaunch",
    "jobToLaunch",
    "ledger",
    "listGpus",
    "listModels",
    "resolveModel",
}


def test_nothing_is_answered_with_a_fault_or_an_undocumented_status(tmp_path: Path) -> None:
    with running_service(TRAINFIT_LOG_LEVEL="error") as service:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json"]
        command += ["--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS)]
        command += ["--max-examples", "60", "--seed", "1", "--no-color"]
        environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert result.returncode == 0, result.stdout + result.stderr
        requests = [
            sample
            for family in text_string_to_metric_families(httpx.get(f"{service.url}/metrics").text)
            for sample in family.samples
            if sample.name == "trainfit_http_requests_total"
        ]
    answered = sum(sample.value for sample in requests if sample.labels["operation"] in OPERATIONS)
    assert answered >= CASES
    answered_well = {
        each.labels["operation"] for each in requests if each.labels["status"] == "200"
    }
    assert answered_well == OPERATIONS
    assert not [each.labels for each in requests if each.labels["status"].startswith("5")]
