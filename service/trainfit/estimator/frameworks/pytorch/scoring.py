"""Samples that are scored before a step: a forward without gradients, of a policy or its reference,
over more tokens than a micro-batch has.

Sources: verl's workers/actor/dp_actor.py (compute_log_prob) and workers/fsdp_workers.py, where the
entropy of what a policy has made is always looked at, for a metric; OpenRLHF's
trainer/ray/ppo_actor.py (forward), where none is.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.ledger import PlacedGroups, PytorchLedger
from trainfit.estimator.frameworks.pytorch.reference import frozen_plan
from trainfit.estimator.frameworks.pytorch.stretch_passes import PassesByStretch
from trainfit.estimator.placement import Content
from trainfit.resolve.pytorch.plan import PytorchPlan


class ScoringPeak(NamedTuple):
    """A stretch at its highest while samples are scored: the bytes that it makes, the residual
    stream aside.
    """

    placed: PlacedGroups
    made: int
    stream: int


def scores_beyond_batch(plan: PytorchPlan) -> bool:
    """Whether more tokens are scored at once than a rank has of a micro-batch."""
    policy, batch = plan.step.policy, plan.batch
    here = batch.seq_length * batch.micro_batch_size // plan.layout.cp
    return policy is not None and policy.scored > here


def scoring(plan: PytorchPlan, content: Content) -> Iterator[ScoringPeak]:
    """The head and the last layer of each kind."""
    if not scores_beyond_batch(plan):
        return
    ledger = PytorchLedger(_plan(plan))
    passes, pattern = PassesByStretch(ledger), ledger.plan.model.pattern
    last = {kind: place for place, kind in enumerate(pattern)}
    for placed in ledger.placed(content._replace(kinds=pattern)):
        if placed.kind is None or placed.layer == last[placed.kind]:
            made = passes.of(placed).forward.peak_bytes
            yield ScoringPeak(placed, made, ledger.sizes.act)


def _plan(plan: PytorchPlan) -> PytorchPlan:
    """As many samples as fill the tokens that are scored, or one that is as long."""
    policy, batch = plan.step.policy, plan.batch
    assert policy is not None
    padded, tokens = policy.by == "verl-padded", policy.scored * plan.layout.cp
    samples = max(1, tokens // batch.seq_length) if padded else 1
    length = batch.seq_length if padded else tokens
    eager = padded or policy.entropy in ("whole", "remade")
    looks = policy
    if policy.by.startswith("verl"):
        looks = policy._replace(entropy="whole" if eager else "compiled")
    frozen = frozen_plan(plan)
    return replace(
        frozen,
        batch=replace(batch, micro_batch_size=samples, seq_length=length),
        step=replace(frozen.step, policy=looks, adapters=plan.step.adapters),
    )
