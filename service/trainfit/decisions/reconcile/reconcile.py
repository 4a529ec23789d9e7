"""A run beside its prediction: was it right, what explains the difference, what is to be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainfit.decisions.reconcile.attribution import Attribution, attributions
from trainfit.decisions.reconcile.comparison import ComparedFigure, comparable, comparisons
from trainfit.decisions.reconcile.explanations import Explanation, explanations
from trainfit.decisions.reconcile.findings import (
    Counted,
    RunFinding,
    findings,
    recorded_findings,
)
from trainfit.decisions.reconcile.snapshot import SnapshotMatch, matched
from trainfit.estimator.results import Estimate
from trainfit.estimator.tree import Module
from trainfit.specs.job import Job
from trainfit.specs.reconcile import Figure
from trainfit.specs.snapshot import SnapshotSummary


class RankRecording(NamedTuple):
    """A recording of a rank, and the ledger of its stage. `loaded` are how many blocks of which
    bytes are there before the first step, where requests are known.
    """

    summary: SnapshotSummary
    pp_rank: int
    modules: Module
    loaded: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which ranks reported something, and of which pipeline ranks; `binding_seen` whether the one
    that needs most was among them.
    """

    num_gpus: int
    ranks: list[int]
    pp_ranks: list[int]
    unseen_pp_ranks: list[int]
    binding_seen: bool


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a run said of itself beside what was predicted."""

    comparisons: list[ComparedFigure]
    attributions: list[Attribution]
    explanations: list[Explanation]
    findings: list[RunFinding]
    snapshot: SnapshotMatch | None
    coverage: Coverage


def reconcile(
    job: Job,
    figures: Sequence[Figure],
    counted: Iterable[Counted],
    estimate: Estimate,
    price: Callable[[Job], Estimate],
    sketch: Callable[[Job], Estimate],
    first_step: Callable[[], Estimate],
    capacity_bytes: int | None,
    recorded: RankRecording | None = None,
) -> Reconciliation:
    """The figures of a run of the job beside its estimate, and what was recorded of one of its
    ranks. `price` estimates what it may have been instead, `sketch` the tensors of that alone, and
    `first_step` the same job before the optimizer has made its moments.
    """
    chosen = comparable(figures)
    found = comparisons(chosen, estimate)
    return Reconciliation(
        comparisons=found,
        attributions=attributions(found, estimate),
        explanations=explanations(job, chosen, found, price, sketch, first_step),
        findings=[
            *findings(figures, found, counted, estimate, capacity_bytes),
            *(recorded_findings(recorded.summary) if recorded is not None else ()),
        ],
        snapshot=None if recorded is None else _matched(recorded, estimate),
        coverage=_coverage(found, estimate),
    )


def _matched(recorded: RankRecording, estimate: Estimate) -> SnapshotMatch:
    stage = estimate.stages[recorded.pp_rank]
    return matched(recorded.summary, recorded.modules, recorded.loaded, stage)


def _coverage(found: Sequence[ComparedFigure], estimate: Estimate) -> Coverage:
    seen = sorted({each.pp_rank for each in found if each.pp_rank is not None})
    stages = range(len(estimate.stages))
    return Coverage(
        num_gpus=estimate.parallelism.num_gpus,
        ranks=sorted({each.rank for each in found if each.rank is not None}),
        pp_ranks=seen,
        unseen_pp_ranks=[stage for stage in stages if stage not in seen],
        binding_seen=estimate.binding.pp_rank in seen,
    )
