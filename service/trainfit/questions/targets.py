"""Adapters whose targets match nothing, which PEFT refuses."""

from trainfit.estimator.frameworks.pytorch.states import shares_of
from trainfit.estimator.frameworks.pytorch.towers import adapter_parameters
from trainfit.estimator.legend import HEADS
from trainfit.estimator.local_parameters import parameters_of
from trainfit.estimator.memo import Memo
from trainfit.resolve.findings import Finding, RefusedError, put
from trainfit.resolve.plan import Plan
from trainfit.resolve.pytorch.plan import PytorchPlan

TARGETS = "/training/peft/target_modules"
EMBEDDING = "embed_tokens"
"""No linear, which PEFT adapts as well."""


def check_targets(plan: Plan, memo: Memo) -> None:
    """Raise RefusedError where no linear of the model has a name that adapters are targeted by. Of
    some towers it is not known what theirs are called. Source: peft's tuners_utils.py
    (inject_adapter).
    """
    if not isinstance(plan, PytorchPlan):
        return
    adapters = plan.step.adapters
    if adapters is None or not adapters.targets or EMBEDDING in adapters.targets:
        return
    if plan.model.encoder_parameters and (plan.model.encoder is None or adapter_parameters(plan)):
        return
    ledger = shares_of(plan, parameters_of(plan, memo), memo).ledger
    tables = ledger.layer_tables
    linears = dict.fromkeys(
        each.name for table in tables for each in table.operations if each.outputs
    )
    if any(ledger.numbers.adapts(each) for each in (*linears, *HEADS)):
        return
    named, known = ", ".join(sorted(adapters.targets)), ", ".join(linears)
    message = f"no linear of the model is called {named}, and PEFT refuses that; it has {known}"
    finding = Finding(TARGETS, "conflict", message, (put(TARGETS, "all-linear"),))
    raise RefusedError((finding,))
