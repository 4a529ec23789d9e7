"""The ledger of one pipeline rank, as it is sent: its modules, and the timeline of its step."""

from dataclasses import dataclass

from trainfit.estimator.estimate import estimate
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.estimator.symbols import shared_symbols
from trainfit.estimator.timeline import Timeline
from trainfit.estimator.tree import Module, module_tree
from trainfit.questions.dimensions import Find, from_package
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Plan
from trainfit.specs.ledger import LedgerRequest


@dataclass(frozen=True, slots=True)
class RankLedger:
    """What a pipeline rank holds and does in one step.

    `symbols` are the sizes that formulas name, with this job's numbers; a block adds its own.
    `course` is null for schedules that are known by their bound alone, where a forward runs at the
    same time as a backward, and where it is too long.
    """

    pp_rank: int
    symbols: dict[str, int]
    modules: Module
    course: Timeline | None


def rank_ledger(request: LedgerRequest, find: Find = from_package) -> RankLedger:
    """The ledger of a rank. Errors are those of `plan_of`, and RefusedError for a rank that the
    layout does not have.
    """
    plan = plan_of(request, find)
    check_rank(request.pp_rank, plan)
    rank = estimate(plan).binding.pp_rank if request.pp_rank is None else request.pp_rank
    framework = framework_of(plan)
    return RankLedger(
        pp_rank=rank,
        symbols=shared_symbols(framework.ledger(plan).sizes),
        modules=module_tree(plan, rank),
        course=framework.timeline(plan, rank),
    )


def check_rank(pp_rank: int | None, plan: Plan) -> None:
    """Raise RefusedError for a rank that the layout does not have."""
    findings, last = Findings(), plan.layout.pipeline.pp - 1
    if pp_rank is not None and pp_rank > last:
        message = f"the pipeline ranks are 0 to {last}"
        findings.add("/pp_rank", "no_such_rank", message, put("/pp_rank", last))
    findings.refuse()
