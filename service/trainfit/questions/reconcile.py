"""From a job and what its run said to the answer: the one path, for HTTP and the terminal."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from trainfit import __version__
from trainfit.decisions.quantities import gib, plain
from trainfit.decisions.reconcile.comparison import rest_on_the_allocator, stage_of
from trainfit.decisions.reconcile.findings import Counted
from trainfit.decisions.reconcile.reconcile import RankRecording, Reconciliation, reconcile
from trainfit.estimator.allocator import Allocate, Free
from trainfit.estimator.estimate import estimate as core_estimate
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.results import Estimate
from trainfit.estimator.tree import module_tree
from trainfit.launch.reading import LaunchReading, ReadLaunch
from trainfit.measurements.measurement import Measurement, Unread
from trainfit.questions.answers import Sent, html_table
from trainfit.questions.bounds import bounded_estimate
from trainfit.questions.digest import catalogue_version, normalised, request_digest
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.estimate import MEMOS, fields_of
from trainfit.questions.measurements import read_texts
from trainfit.questions.pricing import Pricing
from trainfit.questions.releases import estimated
from trainfit.resolve.findings import Finding, RefusedError
from trainfit.resolve.first_step import first_step
from trainfit.resolve.gpu import gpu_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import AS_JOB, Job
from trainfit.specs.reconcile import Figure, ReconcileRequest, Run

EXPLAINING_WORK = 3_000_000
"""Work for what may explain a difference, some seconds at most."""


@dataclass(frozen=True, slots=True)
class ReconcileAnswer(Reconciliation, Sent):
    """A run beside its prediction, with what that is a function of. Equal digests have equal
    answers.

    `unread` are lines of the artifacts that speak of memory and were not read; `estimate` is what
    was predicted. `request_digest` is a SHA-256 of the question about the normalised `job`, the
    source of its model and both versions. `launch` tells how it was read, where a launch stood in
    its place.
    """

    unread: list[Unread]
    estimate: Estimate
    estimator_version: str
    catalogue_version: str
    request_digest: str
    job: Annotated[dict[str, Any], AS_JOB]
    launch: ReadLaunch | None

    def _repr_html_(self) -> str:
        """The comparisons, for a notebook."""
        rows = [
            [
                each.quantity,
                "" if each.rank is None else str(each.rank),
                gib(each.measured_bytes),
                "" if each.predicted is None else gib(each.predicted.expected),
                plain(each.verdict),
            ]
            for each in self.comparisons
        ]
        header = ["bytes", "rank", "measured (GiB)", "expected (GiB)", "is"]
        return html_table("A run beside its prediction", header, rows)


def reconciled(
    request: ReconcileRequest,
    find: Find = from_package,
    reading: LaunchReading | None = None,
) -> ReconcileAnswer:
    """A run beside its prediction, as it is sent. Errors are those of `plan_of`."""
    pricing = Pricing(find)
    plan = pricing.plan_of(request)
    figures, counted, unread = said(request.run)
    estimate = _estimate(request, reading, pricing)
    # What may explain figures of tensors alone is put beside nothing that a replay decides.
    replay = rest_on_the_allocator(figures)
    found = reconcile(
        request,
        figures,
        counted,
        estimate,
        pricing.within(EXPLAINING_WORK, replay=replay),
        pricing.within(EXPLAINING_WORK, replay=False),
        lambda: core_estimate(first_step(plan), memo=MEMOS.current(), replay=replay),
        None if request.gpu is None else gpu_of(request.gpu).memory_bytes,
        _recorded(request.run, plan, estimate),
    )
    document = normalised(request, plan)
    launch = reading.launch if reading is not None else None
    asked: dict[str, Any] = {"run": request.run.model_dump(mode="json")}
    if launch is not None:
        asked["launch"] = asdict(launch)
    return ReconcileAnswer(
        **fields_of(found),
        unread=unread,
        estimate=estimate,
        estimator_version=__version__,
        catalogue_version=catalogue_version(),
        request_digest=request_digest("reconcile", document, asked, plan.source),
        job=document,
        launch=launch,
    )


def said(run: Run) -> tuple[list[Figure], list[Counted], list[Unread]]:
    """What a run said: its figures, what it counted, and what was not read."""
    read = read_texts(run.artifacts)
    figures = [*run.measurements, *map(_figure, read.measurements)]
    counted = [Counted(each.rank, each.event, each.count) for each in read.occurrences]
    return figures, counted, read.unread


def _estimate(job: Job, reading: LaunchReading | None, pricing: Pricing) -> Estimate:
    """What was predicted, within the bounds of all that a launch leaves open."""
    if reading is None:
        return pricing.estimate(job)
    read = reading.launch
    return bounded_estimate(
        job, read.account.bounded, lambda each: estimated(each, read.variants, pricing.estimate)
    )


def _recorded(run: Run, plan: Plan, estimate: Estimate) -> RankRecording | None:
    """What was recorded, with the ledger of its rank's stage. Raises RefusedError where that is not
    known.
    """
    summary = run.snapshot_summary
    if summary is None:
        return None
    pp_rank, why = stage_of(summary.rank, estimate)
    if pp_rank is None:
        raise RefusedError((Finding("/run/snapshot_summary/rank", "conflict", why or ""),))
    loaded = _loaded(plan, pp_rank, summary.rank or 0)
    return RankRecording(summary, pp_rank, module_tree(plan, pp_rank), loaded)


def _loaded(plan: Plan, pp_rank: int, rank: int) -> Counter[int]:
    """How many blocks of which bytes a rank has before its first step; none where its requests are
    not known. Data-parallel ranks are numbered over tensor- and context-parallel ones.
    """
    layout = plan.layout
    within = rank % (layout.num_gpus // layout.pipeline.pp)
    live: dict[Hashable, int] = {}
    for alike in framework_of(plan).traces(plan, MEMOS.current()):
        if pp_rank not in alike.ranks:
            continue
        share = alike.shares[within // (layout.tp * layout.cp) % len(alike.shares)]
        for each in alike.trace(share).loaded:
            if isinstance(each, Allocate):
                live[each.tensor] = each.nbytes
            elif isinstance(each, Free):
                live.pop(each.tensor, None)
    return Counter(live.values())


def _figure(read: Measurement) -> Figure:
    """What a log said, as a caller sends it."""
    return Figure.model_construct(**fields_of(read))
