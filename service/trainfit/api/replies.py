"""Answers as they are sent, with what is counted of them. Each function here may run in the service
itself or in a worker: it is given all that it needs, and what it returns can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from trainfit.api.kinds import TOO_COSTLY
from trainfit.decisions.reconcile.comparison import Quantity
from trainfit.decisions.search.search import SearchProgress
from trainfit.decisions.verdict import Verdict
from trainfit.estimator.results import Estimate, Needs
from trainfit.estimator.work import is_cheap
from trainfit.launch.reading import JobFromLaunch
from trainfit.questions.batch import Batch, EstimatedJob, estimate_batch
from trainfit.questions.calibration import calibrated
from trainfit.questions.compare import compare_jobs
from trainfit.questions.convert import converted
from trainfit.questions.dimensions import Find
from trainfit.questions.estimate import answer, plan_of
from trainfit.questions.fit_check import FitCheckAnswer, check_fit
from trainfit.questions.jobs import AnyJob, answered
from trainfit.questions.kinds import NOT_MODELLED
from trainfit.questions.launches import RequestedJob, draft_from, job_from
from trainfit.questions.ledger import rank_ledger
from trainfit.questions.measurements import measured
from trainfit.questions.model_summary import summarise
from trainfit.questions.problems import ANSWER_ERRORS, Problem, problem, within
from trainfit.questions.reconcile import ReconcileAnswer, reconciled
from trainfit.questions.search import concluded, next_portion
from trainfit.questions.several import Opened
from trainfit.questions.summary import Summary
from trainfit.questions.trace import memory_snapshot, rank_trace
from trainfit.questions.wire import to_json
from trainfit.resolve.plan import Plan
from trainfit.specs.artifacts import Artifacts
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch, LaunchFormat, LaunchTarget
from trainfit.specs.ledger import LedgerRequest, TraceRequest
from trainfit.specs.model import ModelRequest
from trainfit.specs.policy import FitCheckRequest
from trainfit.specs.reconcile import CalibrationRequest, ReconcileRequest
from trainfit.specs.search import SearchRequest
from trainfit.specs.several import CompareRequest


class JobOutcome(NamedTuple):
    """What is counted of one well-formed job: what came of it, by the name of its framework. The
    peak is that of an answered job, where it was asked for.
    """

    framework: str
    outcome: str
    peak_bytes: int | None = None
    verdict: Verdict | None = None


class LaunchTally(NamedTuple):
    """What is counted of a launch: whose keys it is written in, and what came of it."""

    format: LaunchFormat | Literal["unrecognised"]
    outcome: Literal["read", "partly", "refused"]


class Residual(NamedTuple):
    """How far a figure of a run is from what was expected of it, relative to that, by the names of
    the job's framework and of its model's family.
    """

    framework: str
    family: str
    quantity: Quantity
    ratio: float


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in JSON, the digest of what it is a function of, if it has one, and what is counted
    of its jobs, of the launch and of the run that it is about; or a problem.
    """

    document: bytes
    tallies: tuple[JobOutcome, ...] = ()
    launch: LaunchTally | None = None
    digest: str | None = None
    problem: Problem | None = None
    residuals: tuple[Residual, ...] = ()
    media_type: str = "application/json"

    def at_most(self, max_bytes: int) -> Reply:
        """This reply, or the problem that its document is longer than that."""
        if len(self.document) <= max_bytes:
            return self
        detail = (
            f"the answer has {len(self.document)} bytes, and at most {max_bytes} are sent; ask for "
            "fewer jobs at once"
        )
        return replace(self, document=b"", problem=problem(TOO_COSTLY, detail))


def bounded_reply(max_bytes: int, reply: Callable[..., Reply], *args: object) -> Reply:
    """A reply of at most so many bytes, so that a worker hands over nothing that is not sent."""
    return reply(*args).at_most(max_bytes)


class EstimateWanted(NamedTuple):
    """What is asked for beside jobs that are estimated: their activations, their allocators
    replayed, and a summary in the place of JSON.
    """

    activations: bool = True
    replay: bool = True
    summary: Summary | None = None


def estimate_at_once(asked: RequestedJob[Job], find: Find, wanted: EstimateWanted) -> Reply | None:
    """The estimate of one job that is priced in some milliseconds; None for any other."""
    try:
        plan = plan_of(asked.job, find)
    except ANSWER_ERRORS:
        return estimate_reply(asked, find, wanted)
    cheap = is_cheap(plan, replay=wanted.replay)
    return estimate_reply(asked, find, wanted, plan) if cheap else None


def estimate_reply(
    asked: RequestedJob[Job], find: Find, wanted: EstimateWanted, plan: Plan | None = None
) -> Reply:
    """The estimate of one job, whose plan may be known, or its summary."""
    activations, replay, summary = wanted
    ask = partial(answer, activations=activations, replay=replay, find=find, plan=plan)
    result = asked.answered(lambda job, reading: ask(job, reading=reading))
    tally = job_tally(asked.job, result, activations=activations)
    if isinstance(result, Problem):
        return Reply(b"", (tally,), problem=result)
    digest = result.request_digest
    if summary is None:
        return Reply(to_json(result), (tally,), digest=digest)
    text = f"{result.in_brief(summary)}\n".encode()
    return Reply(text, (tally,), digest=digest, media_type="text/plain")


def fit_check_reply(asked: RequestedJob[FitCheckRequest], find: Find) -> Reply:
    """The verdict on one job."""
    result = asked.answered(lambda job, reading: check_fit(job, find, reading=reading))
    tally = fit_check_tally(asked.job, result)
    if isinstance(result, Problem):
        return Reply(b"", (tally,), problem=result)
    return Reply(to_json(result), (tally,), digest=result.request_digest)


def batch_reply(opened: Opened, find: Find, wanted: EstimateWanted) -> Reply:
    """The estimates of several jobs."""
    batch, tallies = _batch(opened, find, wanted)
    return Reply(to_json(batch), tallies)


def line_reply(
    name: str, asked: RequestedJob[Job] | Problem, find: Find, wanted: EstimateWanted
) -> Reply:
    """The entry of one of several jobs, as a line."""
    batch, tallies = _batch({name: asked}, find, wanted)
    return Reply(line_of(*batch.jobs), tallies)


def line_of(job: EstimatedJob) -> bytes:
    """A line of JSON."""
    return to_json(job) + b"\n"


def _batch(
    opened: Opened, find: Find, wanted: EstimateWanted
) -> tuple[Batch, tuple[JobOutcome, ...]]:
    tallies: list[JobOutcome] = []

    def observe(job: Job, result: Estimate | Needs | Problem) -> None:
        tallies.append(job_tally(job, result, activations=wanted.activations))

    activations, replay, _ = wanted
    batch = estimate_batch(opened, observe, activations=activations, replay=replay, find=find)
    return batch, tuple(tallies)


def comparison_reply(question: CompareRequest, opened: Opened, find: Find) -> Reply:
    """Several jobs side by side."""
    tallies: list[JobOutcome] = []

    def observe(job: Job, result: Estimate | Needs | Problem) -> None:
        tallies.append(job_tally(job, result))

    beside = compare_jobs(question, opened, observe, find=find)
    return Reply(to_json(beside), tuple(tallies))


def ledger_reply(question: LedgerRequest, find: Find) -> Reply:
    """The ledger of a rank."""
    return _reply(answered(question, partial(rank_ledger, find=find)))


def trace_reply(question: TraceRequest, find: Find) -> Reply:
    """A rank from moment to moment."""
    return _reply(answered(question, partial(rank_trace, find=find)))


def snapshot_reply(question: TraceRequest, find: Find) -> Reply:
    """A rank as a memory snapshot, which is no JSON."""
    result = answered(question, partial(memory_snapshot, find=find))
    return Reply(b"", problem=result) if isinstance(result, Problem) else Reply(result)


def reading_reply(launch: Launch) -> Reply:
    """The job of a launch."""
    asked = job_from(launch)
    tally = launch_tally(launch, asked)
    if isinstance(asked, Problem):
        return Reply(b"", launch=tally, problem=asked)
    assert asked.reading is not None
    return Reply(to_json(JobFromLaunch.of(asked.reading)), launch=tally)


def draft_reply(launch: Launch) -> Reply:
    """What a launch of an unknown program says."""
    found = draft_from(launch)
    if isinstance(found, Problem):
        return Reply(b"", problem=found)
    return Reply(to_json(found))


def launch_reply(job: Job, to: LaunchTarget, find: Find) -> Reply:
    """The keys that say a job."""
    result = answered(job, lambda job: converted(job, to, find))
    return _reply(within("/job", result) if isinstance(result, Problem) else result)


def measurements_reply(question: Artifacts) -> Reply:
    """What texts of runs say."""
    return Reply(to_json(measured(question)))


def reconcile_reply(asked: RequestedJob[ReconcileRequest], find: Find) -> Reply:
    """A run beside its prediction."""
    result = asked.answered(lambda job, reading: reconciled(job, find, reading))
    if isinstance(result, Problem):
        return Reply(b"", (job_tally(asked.job, result),), problem=result)
    tally = job_tally(asked.job, result.estimate)
    residuals = tuple(_residuals(asked.job, result))
    return Reply(to_json(result), (tally,), digest=result.request_digest, residuals=residuals)


def _residuals(job: Job, answer: ReconcileAnswer) -> Iterator[Residual]:
    """The residual of each figure that can be compared and was not cut short by a full memory."""
    family = answer.estimate.model.model_type
    for each in answer.comparisons:
        if each.predicted is not None and each.residual_bytes is not None and not each.at_least:
            ratio = each.residual_bytes / each.predicted.expected
            yield Residual(job.framework.name, family, each.quantity, ratio)


def calibration_reply(
    question: CalibrationRequest, runs: list[RequestedJob[ReconcileRequest]], find: Find
) -> Reply:
    """What runs of a cluster tell for the next one there."""
    return _reply(calibrated(question, runs, find))


def search_portion(
    asked: RequestedJob[SearchRequest], find: Find, standing: SearchProgress | None, until: float
) -> SearchProgress | Problem:
    """A search one portion further on, as far as there is time."""
    return asked.answered(lambda question, _: next_portion(question, find, standing, until))


def search_reply(asked: RequestedJob[SearchRequest], standing: SearchProgress, find: Find) -> Reply:
    """What a search has found."""
    result = concluded(asked.job, standing, find, asked.reading)
    tally = JobOutcome(asked.job.framework.name, "answered")
    digest = result.request_digest if result.cut is None else None
    return Reply(to_json(result), (tally,), digest=digest)


def model_reply(question: ModelRequest, find: Find) -> Reply:
    """What a model resolves to."""
    return _reply(answered(question, lambda asked: summarise(asked.model, find(asked.model))))


def job_tally(
    job: Job, result: Estimate | Needs | Problem, *, activations: bool = True
) -> JobOutcome:
    """What is counted of a job that was priced or refused."""
    name = job.framework.name
    if isinstance(result, Problem):
        return JobOutcome(name, result.type.rpartition("/")[2])
    peak = result.binding.device_bytes.expected if activations else None
    return JobOutcome(name, "answered", peak)


def launch_tally(launch: Launch, result: RequestedJob[AnyJob] | Problem) -> LaunchTally:
    """What is counted of a launch that was read or refused."""
    if isinstance(result, Problem):
        return LaunchTally(launch.format or "unrecognised", "refused")
    assert result.launch is not None
    return LaunchTally(result.launch.format, "partly" if result.unread else "read")


def fit_check_tally(job: Job, result: FitCheckAnswer | Problem) -> JobOutcome:
    """What is counted of a job that was checked or refused."""
    if isinstance(result, Problem):
        return job_tally(job, result)
    if result.estimate is None:
        return JobOutcome(job.framework.name, NOT_MODELLED.slug, verdict=result.verdict)
    return job_tally(job, result.estimate)._replace(verdict=result.verdict)


def _reply(result: object) -> Reply:
    if isinstance(result, Problem):
        return Reply(b"", problem=result)
    return Reply(to_json(result))
