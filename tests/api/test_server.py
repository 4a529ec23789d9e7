"""The service over a real socket."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator

import httpx

from tests.serving import running_service, start
from trainfit.api.api_keys import named, new_key
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B


def test_a_service_answers_logs_json_and_stops_when_told() -> None:
    with running_service() as service:
        headers = {"x-request-id": "one"}
        answer = httpx.post(f"{service.url}/v1/estimate", json=DEEPSEEK_V3, headers=headers)
        assert answer.status_code == 200
        assert "server" not in answer.headers
        httpx.get(f"{service.url}/livez")
        service.process.send_signal(signal.SIGTERM)
        _, log = service.process.communicate(timeout=10)
    entries = [json.loads(line) for line in log.splitlines()]
    (request,) = [entry for entry in entries if entry["event"] == "request"]
    assert request.pop("duration_seconds") > 0
    assert request.pop("timestamp")
    assert request == {
        "event": "request",
        "level": "info",
        "method": "POST",
        "operation": "estimate",
        "request_id": "one",
        "status": 200,
    }


def test_quiet_is_possible_and_a_long_body_in_parts_is_refused() -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    with running_service(TRAINFIT_LOG_LEVEL="error", TRAINFIT_MAX_BODY_BYTES="1000") as service:
        json_type = {"content-type": "application/json"}
        long = httpx.post(f"{service.url}/v1/estimate", content=parts(), headers=json_type)
        assert long.status_code == 413
        assert long.json()["type"] == "/problems/too-large"
        assert httpx.post(f"{service.url}/v1/estimate", json=LLAMA_8B).status_code == 200
        service.process.send_signal(signal.SIGTERM)
        _, log = service.process.communicate(timeout=10)
    assert log == ""


def test_the_log_begins_with_who_may_ask_and_which_variables_are_none() -> None:
    with running_service(
        TRAINFIT_API_KEYS=str(named("portal", new_key())), TRAINFIT_API_KEY="misspelt"
    ) as service:
        service.process.send_signal(signal.SIGTERM)
        _, log = service.process.communicate(timeout=10)
    warning, start, *_ = (json.loads(line) for line in log.splitlines())
    assert (warning["event"], warning["level"]) == ("unknown setting", "warning")
    assert warning["variable"] == "TRAINFIT_API_KEY"
    assert warning["did_you_mean"] == "TRAINFIT_API_KEYS"
    assert "misspelt" not in log
    assert (start["event"], start["callers"]) == ("starting", ["portal"])


def test_several_workers_are_refused() -> None:
    process = start({"WEB_CONCURRENCY": "2"})
    _, log = process.communicate(timeout=30)
    assert process.returncode == 1
    assert log.startswith("WEB_CONCURRENCY is 2, but Trainfit runs one process a container")


def test_an_address_that_is_taken_ends_it_with_a_code_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        process = start({"TRAINFIT_PORT": str(other.getsockname()[1])})
        _, log = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "address already in use" in log
