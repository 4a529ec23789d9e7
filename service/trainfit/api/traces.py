"""The trace that a request belongs to: its own span where traces are exported, else what the
caller's traceparent header (W3C Trace Context) names.

FastAPI makes the spans and, set up by the standard OTEL_ variables, sends them over OTLP.
"""

from collections.abc import Mapping, MutableMapping

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

UNTRACED = frozenset({"/livez", "/readyz", "/metrics"})

_PROPAGATOR = TraceContextTextMapPropagator()


def telemetry() -> TelemetryConfig:
    """Spans of requests to all but probes. Metrics and logs go their own ways."""
    return TelemetryConfig(
        auto_configure=True,
        metrics=False,
        logs=False,
        exclude=lambda scope: scope["path"] in UNTRACED,
    )


def name_service(environ: MutableMapping[str, str]) -> None:
    """Say in traces who sends them, where the operator does not."""
    if "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        environ.setdefault("OTEL_SERVICE_NAME", "trainfit")


def trace_ids(scope: Scope, headers: Mapping[bytes, bytes]) -> Mapping[str, str]:
    """What entries of the log say of the trace of a request; nothing where it is in none."""
    span = trace.get_current_span() if "fastapi.telemetry" in scope else trace.INVALID_SPAN
    if not span.get_span_context().is_valid:
        traceparent = headers.get(b"traceparent")
        if traceparent is None:
            return {}
        carrier = {"traceparent": traceparent.decode("latin-1")}
        span = trace.get_current_span(_PROPAGATOR.extract(carrier))
    context = span.get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }
