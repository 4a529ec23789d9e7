"""What the last rank of a run holds less than the fullest, where Muon's parameters are dealt out.

Megatron-LM's tests record the last global rank, which is the last of its data-parallel ranks; an
estimate is of the rank whose share is largest (estimator.frameworks.megatron.states).
"""

from __future__ import annotations

from trainfit.estimator.frameworks.megatron.requests.traces import Traces
from trainfit.estimator.frameworks.megatron.states import deals_whole
from trainfit.estimator.memo import Memo
from trainfit.estimator.results import Interval
from trainfit.questions.estimate import plan_of
from trainfit.resolve.megatron.plan import MegatronPlan
from trainfit.specs.job import Job


def of_last_rank(job: Job, fullest: Interval) -> Interval:
    """The bytes of the last rank of the last stage, by those of its `fullest` rank."""
    plan = plan_of(job)
    if not isinstance(plan, MegatronPlan) or not deals_whole(plan):
        return fullest
    last = max(Traces(plan, Memo()).alike(), key=lambda each: max(each.ranks))
    peaks = [last.trace(share).peak_bytes for share in sorted(last.shares)]
    less = max(peaks) - peaks[-1]
    return Interval(fullest.low - less, fullest.expected - less, fullest.high - less)
