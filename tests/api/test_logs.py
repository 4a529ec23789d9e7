"""What the log says, in which form, and of which trace."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from httpx import AsyncClient

from trainfit.api.api_keys import new_key
from trainfit.api.logs import OF_REQUEST, Format, configure_logs, log_request

pytestmark = pytest.mark.usefixtures("logs_restored")

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def entries(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was logged, save by the client that asks."""
    lines = capsys.readouterr().err.splitlines()
    return [entry for entry in map(json.loads, lines) if "HTTP Request" not in entry["event"]]


async def test_an_entry_has_the_id_of_its_request_and_of_its_trace(
    client: AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info")
    await client.get("/v1/gpus", headers={"x-request-id": "one", "traceparent": TRACEPARENT})
    await client.get("/v1/gpus")
    first, second = entries(capsys)
    assert first["request_id"] == "one"
    assert first["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert first["span_id"] == "00f067aa0ba902b7"
    assert second["request_id"] not in ("one", "")
    assert "trace_id" not in second


@pytest.mark.parametrize("traceparent", ["", "x", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16])
async def test_an_ill_formed_trace_is_no_trace(
    client: AsyncClient, capsys: pytest.CaptureFixture[str], traceparent: str
) -> None:
    configure_logs("info")
    response = await client.get("/v1/gpus", headers={"traceparent": traceparent})
    assert response.status_code == 200
    (entry,) = entries(capsys)
    assert "trace_id" not in entry


async def test_an_unknown_method_is_not_repeated(
    client: AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info")
    await client.request("HUNTER2", "/v1/gpus")
    (entry,) = entries(capsys)
    assert entry["method"] == "other"


@pytest.mark.parametrize("caller", [None, 'the "team" of é'])
def test_an_entry_of_a_request_is_as_any_other(
    capsys: pytest.CaptureFixture[str], caller: str | None
) -> None:
    """It is put together in a way of its own."""
    configure_logs("info", "json")
    before = OF_REQUEST.set({"request_id": "hf_" + "a" * 34, "trace_id": "0" * 32})
    for seconds in (1.23456789, 0.00001, 12.0):
        log_request("listGpus", "GET", 200, seconds, caller)
        known = {} if caller is None else {"caller": caller}
        structlog.get_logger("trainfit").info(
            "request",
            operation="listGpus",
            method="GET",
            status=200,
            duration_seconds=round(seconds, 6),
            **known,
        )
    OF_REQUEST.reset(before)
    lines = capsys.readouterr().err.splitlines()
    for own, other in zip(lines[::2], lines[1::2], strict=True):
        assert own.isascii()
        assert json.loads(own).items() - json.loads(other).items() <= {
            ("timestamp", json.loads(own)["timestamp"])
        }
        assert list(json.loads(own)) == list(json.loads(other))
        assert json.loads(own)["request_id"] == "***"


@pytest.mark.parametrize(("level", "form"), [("warning", "json"), ("info", "console")])
def test_an_entry_of_a_request_keeps_to_the_level_and_the_form(
    capsys: pytest.CaptureFixture[str], level: str, form: Format
) -> None:
    configure_logs(level, form)
    log_request("listGpus", "GET", 200, 0.1, "team")
    said = capsys.readouterr().err
    assert bool(said) == (level == "info")
    assert not said.startswith("{")


def say_something() -> None:
    structlog.get_logger("trainfit").warning("ours", number=1)
    logging.getLogger("uvicorn.error").warning("of the %s", "server")


@pytest.mark.parametrize(
    ("form", "terminal", "json_lines"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("json", True, True),
        ("console", False, False),
    ],
)
def test_the_form_is_for_who_reads(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: Format,
    terminal: bool,
    json_lines: bool,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    configure_logs("info", form)
    say_something()
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("{") for line in lines] == [json_lines, json_lines]
    assert any("\x1b[" in line for line in lines) == (terminal and not json_lines)
    assert "ours" in lines[0]
    assert "of the server" in lines[1]


def test_the_server_logs_as_the_service_does(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    before = OF_REQUEST.set({"request_id": "one"})
    say_something()
    OF_REQUEST.reset(before)
    ours, theirs = entries(capsys)
    assert ours.keys() - theirs.keys() == {"number"}
    assert ours["level"] == theirs["level"] == "warning"
    assert ours["request_id"] == theirs["request_id"] == "one"


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_looks_like_a_secret_is_blotted_out_even_of_a_traceback(
    capsys: pytest.CaptureFixture[str], form: Format
) -> None:
    configure_logs("info", form)
    secrets = (new_key(), "hf_" + "a" * 34, "Basic dXNlcjpwYXNz", "Bearer abc.def-ghi")
    for secret in secrets:
        try:
            raise ValueError(f"cannot use {secret} here")
        except ValueError:
            structlog.get_logger("trainfit").exception("failed", given={"header": secret})
            logging.getLogger("uvicorn.error").exception("failed with %s", secret)
    text = capsys.readouterr().err
    assert text.count("cannot use *** here") == 2 * len(secrets)
    assert not [secret for secret in secrets if secret in text]


def test_what_is_no_unicode_does_not_silence_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    structlog.get_logger().warning("half", path="\udcff", of={"a": b"\xff", "b": ValueError("x")})
    (entry,) = entries(capsys)
    assert entry["path"] == "\udcff"
    assert entry["of"] == {"a": repr(b"\xff"), "b": "ValueError('x')"}


def test_an_entry_is_ascii_whatever_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    structlog.get_logger().warning("said", text="é\u2028\n")
    line = capsys.readouterr().err
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line)["text"] == "é\u2028\n"


def test_the_runbook_finds_errors(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = re.search(r"logs deployment/trainfit \| grep '(.+)'", RUNBOOK.read_text("utf-8"))
    assert pattern
    configure_logs("info", "json")
    say_something()
    structlog.get_logger().error("failed")
    lines = capsys.readouterr().err.splitlines()
    assert [pattern[1] in line for line in lines] == [False, False, True]
