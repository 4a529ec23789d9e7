"""Hugging Face nanotron, as the estimator asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from trainfit.estimator import timeline as turns
from trainfit.estimator.frameworks.framework import Alike, Costs, Execution, StateTraffic
from trainfit.estimator.frameworks.nanotron.ledger import NanotronLedger
from trainfit.estimator.frameworks.nanotron.ranks import activations_of
from trainfit.estimator.frameworks.nanotron.ranks import ranks as ranks
from trainfit.estimator.local_parameters import ParameterTable
from trainfit.estimator.memo import Memo
from trainfit.estimator.overhead import NOTHING, UNMEASURED_PERMILLE, KernelLoading
from trainfit.estimator.results import Interval
from trainfit.estimator.timeline import Timeline
from trainfit.resolve.nanotron.plan import NanotronPlan
from trainfit.specs.calibration import Trained

MEASURED_PEAKS, HELD_PEAKS = 17, 15
"""Reserved peaks of first stages in nanotron's benchmark, of revisions that it does not name, and
those of them that the interval of reserved bytes holds.
"""

ASSUMPTIONS = {
    "interval-basis-nanotron": f"Low and high are engineering bounds on the ledger's sum. Of "
    f"{MEASURED_PEAKS} published peaks of reserved bytes, of revisions of nanotron that are not "
    f"known, {HELD_PEAKS} lie between those of reserved bytes.",
}


def ledger(plan: NanotronPlan, *, symbolic: bool = False) -> NanotronLedger:
    """nanotron's programs, in numbers or in symbols."""
    return NanotronLedger(plan, symbolic=symbolic)


def execution(plan: NanotronPlan) -> Execution:
    """Linears multiply in bf16; gradients are added up behind backward."""
    adds = plan.step.accumulates_in_fp32 or plan.batch.num_microbatches > 1
    return Execution(narrow=None, overlaps_experts=False, adds_apart=adds, launches_experts=False)


def shared_ledger(plan: NanotronPlan, memo: Memo) -> NanotronLedger:
    """Made once for a plan."""
    return memo(NanotronLedger, plan)


def state_traffic(plan: NanotronPlan) -> StateTraffic:
    """Gradients are added up in fp32, or left in bf16 and reduced by DDP beside the backward."""
    width = 4 if plan.step.accumulates_in_fp32 else 2
    moments = 2 if plan.step.optimizer == "adam" else 0
    return StateTraffic(
        gradient=width,
        weight=2 if plan.shares_states else 0,
        gathers=0,
        reduces_each=False,
        overlapped=plan.reduces_in_buckets,
        optimizer=width * (3 + 2 * moments) + 2,
    )


def programs(plan: NanotronPlan) -> Mapping[str, ModuleType]:  # noqa: ARG001
    """The programs of its Llama."""
    return NanotronLedger.tables


def timeline(plan: NanotronPlan, rank: int) -> Timeline | None:
    """The turns of 1f1b, or all forwards before all backwards. What was sent is kept by nobody:
    parallel/pipeline_parallel (engine.py, state.py).
    """
    return turns.timeline(plan, NanotronLedger(plan), rank, 0, activations_of)


def traces(plan: NanotronPlan, memo: Memo) -> Sequence[Alike]:  # noqa: ARG001
    """Not known."""
    return ()


def trained_parameters(plan: NanotronPlan, table: ParameterTable, memo: Memo) -> None:
    """All are trained."""


def trains(plan: NanotronPlan) -> Trained:  # noqa: ARG001
    """It knows no adapters."""
    return "all"


def stray_permille(plan: NanotronPlan) -> int:  # noqa: ARG001
    """No run is known completely."""
    return UNMEASURED_PERMILLE


def kernel_loading(plan: NanotronPlan) -> KernelLoading:  # noqa: ARG001
    """It needs releases of CUDA that load what runs."""
    return "lazy"


def expert_groups(plan: NanotronPlan) -> list[int]:  # noqa: ARG001
    """None: Llama, the model of nanotron that is known, has no experts."""
    return []


def exchange(plan: NanotronPlan) -> Interval:  # noqa: ARG001
    """No tokens travel to experts."""
    return NOTHING


def assumptions(plan: NanotronPlan) -> frozenset[str]:  # noqa: ARG001
    """Gradients that were added up are freed before the next step, where they are no buffer."""
    return frozenset({"interval-basis-nanotron", "later-step"})


def costs(plan: NanotronPlan, *, replay: bool) -> Costs:  # noqa: ARG001
    """Measured over the models of tests/bench."""
    return Costs(kind=500, layer=20, rank=80, chunk=35)
