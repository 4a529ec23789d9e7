"""From runs of a cluster to what is sent with the next job there: the one path, for every door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainfit import __version__
from trainfit.decisions.calibration import (
    Layout,
    MeasuredRun,
    SeenRank,
    outside_of,
    seen,
    slack_of,
)
from trainfit.estimator.estimate import links_of
from trainfit.estimator.estimate import outside_of as published
from trainfit.questions.answers import Sent
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.kinds import INVALID_LAYOUT
from trainfit.questions.launches import Asked
from trainfit.questions.pricing import Pricing
from trainfit.questions.problems import Problem, problem, within
from trainfit.questions.reconcile import said
from trainfit.resolve.findings import Finding
from trainfit.specs.calibration import Calibration, Cluster, digest_of
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest

NO_CARD = "a card that was not named"
TELLS_NOTHING = (
    "no rank tells what its card holds, nor what was reserved beside what was allocated; an error "
    "of a memory that is full does, or nvidia-smi beside the log"
)


@dataclass(frozen=True, slots=True)
class FittedCalibration(Sent):
    """What is sent with the next job of the cluster, and what each run told, in their order: a run
    of which no rank tells anything has none.
    """

    calibration: Calibration
    runs: list[list[SeenRank]]


def calibrated(
    request: CalibrationRequest,
    runs: Sequence[Asked[ReconcileRequest]],
    find: Find = from_package,
) -> FittedCalibration | Problem:
    """What the runs of one cluster tell, or why that makes no calibration."""
    told: list[MeasuredRun] = []
    clusters: list[Cluster] = []
    for number, asked in enumerate(runs):
        result = asked.answered(lambda job, _: _told(job, request, Pricing(find)))
        if isinstance(result, Problem):
            return within(f"/runs/{number}", result)
        run, cluster = result
        if cluster != (clusters or [cluster])[0]:
            why = f"it is of {_named(cluster)}, and the first run of {_named(clusters[0])}"
            return _none(f"/runs/{number}", why)
        told.append(run)
        clusters.append(cluster)
    outside, slack = outside_of(told), slack_of(told, clusters[0])
    if not outside and slack is None:
        return _none("/runs", TELLS_NOTHING)
    document = {
        "cluster": clusters[0].model_dump(),
        "outside": [each.model_dump() for each in outside],
        "slack_ratio": None if slack is None else slack.model_dump(),
        "runs": sum(bool(each.ranks) for each in told),
        "fitted_by": __version__,
    }
    fitted = Calibration.model_validate({**document, "digest": digest_of(document)})
    return FittedCalibration(fitted, [list(each.ranks) for each in told])


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
        allocator="expandable_segments" if plan.framework.expandable_segments else "default",
        driver=beside.driver,
        nccl=beside.nccl,
        torch=beside.torch,
    )
    layout = Layout(communicators, exchange.high > 0)
    figures, _, _ = said(request.run)
    return MeasuredRun(layout, published(plan), seen(figures, pricing.estimate(job))), cluster


def _named(cluster: Cluster) -> str:
    return f"{cluster.gpu_name} under {cluster.framework_name}, allocator {cluster.allocator}"


def _none(pointer: str, message: str) -> Problem:
    return problem(INVALID_LAYOUT, f"{pointer}: {message}", [Finding(pointer, "conflict", message)])
