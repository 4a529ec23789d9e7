"""What the service counts. Labels are drawn from closed sets, never from what a caller writes."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import get_args

from fastapi import Request
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

import trainfit
from trainfit.api.replies import JobOutcome, LaunchTally, Residual
from trainfit.decisions.verdict import Verdict
from trainfit.hub.entries import Layer
from trainfit.hub.observer import Outcome
from trainfit.questions.digest import catalogue_version

GIB = 2**30

REQUEST_SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip
PEAK_BYTES = tuple(gib * GIB for gib in (4, 8, 16, 24, 32, 40, 48, 64, 80, 96, 141, 192))

RESIDUAL_RATIOS = (
    -0.5, -0.2, -0.1, -0.05, -0.02, -0.01, -0.005, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
)  # fmt: skip
"""As bounds are wide: half a percent where all is known, a tenth where little is."""

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

# The times at which series began would double what is scraped.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _LogEntriesDropped(Collector):
    """Read where it is counted, since what counts may stand within any other lock."""

    def __init__(self) -> None:
        self.read: Callable[[], int] = int

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "trainfit_log_entries_dropped",
            "Entries of the log that were dropped, since nobody read those before.",
            value=self.read(),
        )


class Metrics:
    """The metrics of one app, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "trainfit_http_requests_total",
            "Requests answered.",
            ("operation", "method", "status"),
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "trainfit_http_request_duration_seconds",
            "From the first byte of a request to the last of its answer.",
            ("operation",),
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self._estimates = Counter(
            "trainfit_estimates_total",
            "Well-formed jobs, by what came of them: answered, or the problem that refused them.",
            ("outcome", "framework"),
            registry=self.registry,
        )
        self._verdicts = Counter(
            "trainfit_fit_checks_total",
            "Fit-checks that were answered.",
            ("verdict",),
            registry=self.registry,
        )
        self._reviews = Counter(
            "trainfit_admission_reviews_total",
            "Objects that a Kubernetes API server asked about: the verdict on their job, no_job "
            "where there is none, not_checked where there is no verdict.",
            ("outcome", "allowed"),
            registry=self.registry,
        )
        self._launches = Counter(
            "trainfit_launches_total",
            "Launches that were sent, by whose keys they are written in: read, partly where a key "
            "is not modelled, refused.",
            ("format", "outcome"),
            registry=self.registry,
        )
        self._peak_bytes = Histogram(
            "trainfit_estimated_peak_bytes",
            "Device memory expected on the GPU of an answered job that needs most.",
            buckets=PEAK_BYTES,
            registry=self.registry,
        )
        self._residuals = Histogram(
            "trainfit_residual_ratio",
            "Of figures of runs, measured less expected, relative to the expected.",
            ("framework", "family", "quantity"),
            buckets=RESIDUAL_RATIOS,
            registry=self.registry,
        )
        for verdict in get_args(Verdict):
            self._verdicts.labels(verdict)  # zero until the first one, not absent
        self._in_flight = Gauge(
            "trainfit_http_requests_in_flight",
            "Requests to operations that are being answered.",
            registry=self.registry,
        )
        self._answers_repeated = Counter(
            "trainfit_answers_repeated_total",
            "Answers that were remembered and given again.",
            registry=self.registry,
        )
        self._answers_remembered = Gauge(
            "trainfit_answers_remembered_bytes",
            "Memory in which answers are remembered.",
            registry=self.registry,
        )
        self._hub_requests = Counter(
            "trainfit_hub_requests_total",
            "Requests to the Hugging Face Hub, by what came of them.",
            ("outcome",),
            registry=self.registry,
        )
        self._hub_request_seconds = Histogram(
            "trainfit_hub_request_duration_seconds",
            "From asking the Hub to the end of its answer, redirects included.",
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        models_found = Counter(
            "trainfit_models_found_total",
            "Models of the Hub, by where they were found: nearest first, the Hub itself last.",
            ("layer",),
            registry=self.registry,
        )
        self._models_found = {layer: models_found.labels(layer) for layer in get_args(Layer)}
        self._cache_entries = Gauge(
            "trainfit_hub_cache_entries",
            "Models of the Hub in the memory of the process.",
            registry=self.registry,
        )
        self._cache_malformed = Counter(
            "trainfit_hub_cache_malformed_total",
            "Entries of caches that were not used, since they are none of what the service writes.",
            ("layer",),
            registry=self.registry,
        )
        for layer in ("disk", "shared"):
            self._cache_malformed.labels(layer)
        self._log_entries_dropped = _LogEntriesDropped()
        self.registry.register(self._log_entries_dropped)
        build = Info("trainfit_build", "The estimator that answers.", registry=self.registry)
        build.info({"version": trainfit.__version__, "catalogue_version": catalogue_version()})

        # Finding a series by its labels takes longer than counting does.
        self._estimate_series = cache(self._estimates.labels)
        self._verdict_series = cache(self._verdicts.labels)
        self._request_series = cache(
            lambda operation, method, status: (
                self._requests.labels(operation, method, str(status)),
                self._request_seconds.labels(operation),
            )
        )

    def watch(self, under_way: Callable[[], int], remembered_bytes: Callable[[], int]) -> None:
        """Read from here how many requests are being answered, and what answers are kept in."""
        self._in_flight.set_function(under_way)
        self._answers_remembered.set_function(remembered_bytes)

    def watch_log(self, dropped: Callable[[], int]) -> None:
        """Read from here how many entries of the log were dropped."""
        self._log_entries_dropped.read = dropped

    def request_answered(self, operation: str, method: str, status: int, seconds: float) -> None:
        """Count a request to an operation, or to "unmatched", by a method of the closed set and
        the status that it was answered with, 0 where the connection ended before.
        """
        count, durations = self._request_series(operation, method, status)
        count.inc()
        durations.observe(seconds)

    def job_asked(self, tally: JobOutcome) -> None:
        """Count a job and what came of it."""
        if tally.peak_bytes is not None:
            self._peak_bytes.observe(tally.peak_bytes)
        if tally.verdict is not None:
            self._verdict_series(tally.verdict).inc()
        self._estimate_series(tally.outcome, tally.framework).inc()

    def run_compared(self, residual: Residual) -> None:
        """Count how far a figure of a run is from what was expected."""
        labels = residual.framework, residual.family, residual.quantity
        self._residuals.labels(*labels).observe(residual.ratio)

    def answer_repeated(self, tallies: Iterable[JobOutcome], launch: LaunchTally | None) -> None:
        """Count that an answer is given again, and what was asked once more."""
        self._answers_repeated.inc()
        for tally in tallies:
            self.job_asked(tally)
        if launch is not None:
            self.launch_asked(launch)

    def launch_asked(self, tally: LaunchTally) -> None:
        """Count a launch that was sent, and what came of it."""
        self._launches.labels(tally.format, tally.outcome).inc()

    def object_reviewed(self, outcome: str, *, allowed: bool) -> None:
        """Count an object on its way into a cluster: the outcome of its review."""
        self._reviews.labels(outcome, str(allowed).lower()).inc()

    def hub_asked(self, outcome: Outcome, seconds: float) -> None:
        """Count a request to the Hub."""
        self._hub_requests.labels(outcome).inc()
        self._hub_request_seconds.observe(seconds)

    def model_found(self, layer: Layer) -> None:
        """Count a model that was found there."""
        self._models_found[layer].inc()

    def cache_holds(self, configs: int) -> None:
        """So many models are in memory now."""
        self._cache_entries.set(configs)

    def entry_malformed(self, layer: Layer) -> None:
        """Count what a cache holds and is not used."""
        self._cache_malformed.labels(layer).inc()

    def exposition(self) -> bytes:
        """Every metric in Prometheus's text format."""
        return generate_latest(self.registry)


def closed_method(method: str) -> str:
    """The method, or "other" for one that no operation could have."""
    return method if method in METHODS else "other"


def metrics_of(request: Request) -> Metrics:
    """The metrics of the app that serves this request."""
    metrics: Metrics = request.app.state.metrics
    return metrics
