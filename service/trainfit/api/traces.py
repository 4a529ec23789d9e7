"""The trace that a request belongs to: its own span where traces are exported, else what the
caller's traceparent header (W3C Trace Context) names.

FastAPI makes the spans and, told by the standard OTEL_ variables, sends them over OTLP.
"""

from collections.abc import Mapping, MutableMapping

from fastapi.telemetry import TelemetryConfig
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

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


def trace_ids(traceparent: str | None) -> Mapping[str, str]:
    """What an entry of the log says of its trace; nothing where there is none."""
    span = trace.get_current_span()
    if not span.get_span_context().is_valid and traceparent is not None:
        span = trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}))
    context = span.get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }
