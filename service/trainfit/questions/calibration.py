"""From runs of a cluster to what is sent with the next job there: the one path, for every door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainfit import __version__
from trainfit.decisions.calibration import (
    CalibratedLayout,
    MeasuredRun,
    Pace,
    SeenRank,
    outside_of,
    paces_of,
    replays_of,
    seen,
    slack_of,
)
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.needs import links_of
from trainfit.estimator.needs import outside_of as published
from trainfit.estimator.overhead import grows_segments
from trainfit.measurements.measurement import Speed
from trainfit.questions.answers import Sent
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.kinds import INVALID_LAYOUT
from trainfit.questions.launches import RequestedJob
from trainfit.questions.measurements import read_texts
from trainfit.questions.pricing import Pricing
from trainfit.questions.problems import Problem, problem, within
from trainfit.questions.reconcile import said
from trainfit.resolve.findings import Finding
from trainfit.resolve.plan import Plan
from trainfit.specs.calibration import Calibration, Cluster, digest_of
from trainfit.specs.job import Job
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest, Run
from trainfit.steptime import Untimed, step_time, surroundings
from trainfit.steptime.calibration import carried

WARMING = 2
"""Steps in which kernels are chosen and memory is found."""
NO_CARD = "a card that was not named"
TELLS_NOTHING = (
    "no rank tells what its card holds, nor what was reserved beside what was allocated; an error "
    "of a memory that is full does, or nvidia-smi beside the log; and no line after the second "
    "step says how long one took"
)


@dataclass(frozen=True, slots=True)
class FittedCalibration(Sent):
    """What is sent with the next job of the cluster, and what each run said, in their order: a run
    of which no rank tells anything has none.
    """

    calibration: Calibration
    runs: list[list[SeenRank]]


def calibrated(
    request: CalibrationRequest,
    runs: Sequence[RequestedJob[ReconcileRequest]],
    find: Find = from_package,
) -> FittedCalibration | Problem:
    """What the runs of one cluster tell, or why that makes no calibration."""
    measured: list[MeasuredRun] = []
    clusters: list[Cluster] = []
    for number, asked in enumerate(runs):
        result = asked.answered(lambda job, _: _told(job, request, Pricing(find)))
        if isinstance(result, Problem):
            return within(f"/runs/{number}", result)
        run, cluster = result
        if cluster != (clusters or [cluster])[0]:
            why = f"it is of {_named(cluster)}, and the first run of {_named(clusters[0])}"
            return _none(f"/runs/{number}", why)
        measured.append(run)
        clusters.append(cluster)
    outside, slack = outside_of(measured), slack_of(measured, clusters[0])
    replays, paces = replays_of(measured), paces_of(measured)
    if not (outside or replays or paces or slack is not None):
        return _none("/runs", TELLS_NOTHING)
    document = {
        "cluster": clusters[0].model_dump(),
        "outside": [each.model_dump() for each in outside],
        "slack_ratio": None if slack is None else slack.model_dump(),
        "replays": [each.model_dump() for each in replays],
        "paces": [each.model_dump() for each in paces],
        "runs": sum(bool(each.ranks or each.pace) for each in measured),
        "fitted_by": __version__,
    }
    fitted = Calibration.model_validate({**document, "digest": digest_of(document)})
    return FittedCalibration(fitted, [list(each.ranks) for each in measured])


def _told(
    request: ReconcileRequest, beside: CalibrationRequest, pricing: Pricing
) -> tuple[MeasuredRun, Cluster]:
    """What a run tells beside what published ones show of it, and where it ran."""
    job = request.model_copy(update={"calibration": None})
    plan = pricing.plan_of(job)
    communicators, exchange = links_of(plan)
    cluster = Cluster(
        gpu_name=plan.gpu.name or NO_CARD,
        framework_name=plan.framework.name,
        allocator="default" if grows_segments(plan) is False else "expandable_segments",
        driver=beside.driver,
        nccl=beside.nccl,
        torch=beside.torch,
    )
    layout = CalibratedLayout(communicators, exchange.high > 0, framework_of(plan).trains(plan))
    figures, _, _ = said(request.run)
    ranks = seen(figures, pricing.estimate(job))
    return MeasuredRun(layout, published(plan), ranks, _pace(request.run, job, plan)), cluster


def _pace(run: Run, job: Job, plan: Plan) -> Pace | None:
    """How long a step took; None where the log does not say, or the job not how many samples."""
    training, on = job.training, surroundings(plan)
    expected = step_time(plan)
    if training.global_batch_size is None and training.num_microbatches is None:
        return None
    if on is None or isinstance(expected, Untimed):
        return None
    tokens = round(expected.tokens_per_second * expected.seconds.expected)
    speeds = read_texts(run.artifacts).speeds
    seconds = _measured_seconds(speeds, tokens, plan.layout.num_gpus)
    if seconds is None:
        return None
    middle = expected.seconds.expected
    return Pace(carried(plan, on.gpu), seconds / middle, expected.seconds.high / middle - 1)


def _measured_seconds(speeds: Sequence[Speed], tokens: int, num_gpus: int) -> float | None:
    """Seconds of a step in the median of those that were printed, but for the first; of `tokens` on
    all GPUs where it is tokens that were. None where no line says either.
    """
    steps = [
        (each.step, seconds)
        for each in speeds
        if (seconds := _seconds(each, tokens, num_gpus)) is not None
    ]
    warm = [seconds for step, seconds in steps if step is None or step > WARMING]
    return median(warm) if warm else None


def _seconds(speed: Speed, tokens: int, num_gpus: int) -> float | None:
    if speed.seconds is not None:
        return speed.seconds
    rate = speed.tokens_per_second_per_gpu
    return tokens / (rate * num_gpus) if rate else None


def _named(cluster: Cluster) -> str:
    return f"{cluster.gpu_name} under {cluster.framework_name}, allocator {cluster.allocator}"


def _none(pointer: str, message: str) -> Problem:
    return problem(INVALID_LAYOUT, f"{pointer}: {message}", [Finding(pointer, "conflict", message)])
