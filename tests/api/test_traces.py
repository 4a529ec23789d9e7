"""Traces: one span for each request, in the caller's trace, sent where the OTEL_ variables say."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest
from httpx import AsyncClient
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from tests.serving import running_service
from trainfit.api.examples import LLAMA_8B
from trainfit.api.traces import name_service, trace_ids

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{CALLER}-01"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


async def test_a_request_is_a_span_of_the_callers_trace(
    client: AsyncClient, exporter: InMemorySpanExporter
) -> None:
    await client.post("/v1/estimate", json=LLAMA_8B, headers={"traceparent": TRACEPARENT})
    (span,) = [each for each in exporter.get_finished_spans() if each.kind == SpanKind.SERVER]
    assert span.name == "POST /v1/estimate"
    assert span.parent is not None
    assert trace.format_span_id(span.parent.span_id) == CALLER
    assert trace.format_trace_id(span.context.trace_id) == TRACE_ID
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 200


async def test_probes_leave_no_spans(client: AsyncClient, exporter: InMemorySpanExporter) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        await client.get(path)
    assert exporter.get_finished_spans() == ()


def test_the_span_of_the_request_goes_before_that_of_the_caller() -> None:
    provider = TracerProvider()
    headers = {b"traceparent": TRACEPARENT.encode()}
    with provider.get_tracer("test").start_as_current_span("request") as span:
        ids = trace_ids({"fastapi.telemetry": object()}, headers)
        context = span.get_span_context()
    assert ids["span_id"] == trace.format_span_id(context.span_id)
    assert ids["trace_id"] == trace.format_trace_id(context.trace_id) != TRACE_ID


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "trainfit"),
        ({"OTEL_SERVICE_NAME": "mine"}, "mine"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine"}, None),
    ],
)
def test_the_operator_may_name_the_service(given: dict[str, str], named: str | None) -> None:
    environ = dict(given)
    name_service(environ)
    assert environ.get("OTEL_SERVICE_NAME") == named


@contextmanager
def collector() -> Iterator[tuple[str, queue.Queue[bytes]]]:
    """Where traces can be sent, and what was."""
    received: queue.Queue[bytes] = queue.Queue()

    class Collect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            received.put(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collect) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def test_a_collector_gets_the_spans_whose_ids_the_log_has() -> None:
    with collector() as (url, received):
        with running_service(OTEL_EXPORTER_OTLP_ENDPOINT=url) as service:
            headers = {"traceparent": TRACEPARENT}
            httpx.post(f"{service.url}/v1/estimate", json=LLAMA_8B, headers=headers)
            service.process.terminate()
            _, log = service.process.communicate(timeout=30)
        sent = ExportTraceServiceRequest.FromString(received.get(timeout=10))
    (resource,) = sent.resource_spans
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "trainfit"
    spans = {span.span_id.hex(): span for scope in resource.scope_spans for span in scope.spans}
    (entry,) = [entry for entry in map(json.loads, log.splitlines()) if entry["event"] == "request"]
    assert entry["trace_id"] == TRACE_ID
    assert spans[entry["span_id"]].name == "POST /v1/estimate"
    assert spans[entry["span_id"]].parent_span_id.hex() == CALLER


def test_nothing_of_the_sdk_is_loaded_where_no_traces_are_sent() -> None:
    program = (
        "import sys; from trainfit.api.app import create_app; "
        "from trainfit.api.settings import ServiceSettings; create_app(ServiceSettings()); "
        "sys.exit('opentelemetry.sdk' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
