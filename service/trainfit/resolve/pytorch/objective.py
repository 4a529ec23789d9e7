"""What a step learns beside the next token."""

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.resolve.pytorch.plan import Preference
from trainfit.specs.architecture import ModelSpec, OutputLayer
from trainfit.specs.job import Job
from trainfit.specs.training import Loss

LOSS = "/training/loss"


def with_head(model: ModelSpec, loss: Loss) -> ModelSpec:
    """The model with the head that its objective asks for: a reward is one value of a sample, as
    TRL loads it. Source: trl/trainer/reward_trainer.py (num_labels).
    """
    if loss.objective != "reward":
        return model
    head = OutputLayer(rows=1, width=model.output_layer.width, scores_labels=True)
    return model.model_copy(update={"output_layer": head})


def preference_of(loss: Loss) -> Preference | None:
    """How log-probabilities are computed, where a loss compares them."""
    if loss.objective != "preference":
        return None
    return Preference(loss.reference, loss.log_probs_by, loss.chosen_nll)


def check_objective(job: Job, layout: Layout, findings: Findings) -> None:
    """Values have no logits of a vocabulary, and log-probabilities are of all of them."""
    loss = job.training.loss
    if loss.objective == "preference":
        _check_preference(job, layout, findings)
    elif loss.reference != "none":
        message = "only a loss of preferences has a reference"
        findings.add(f"{LOSS}/reference", "conflict", message, put(f"{LOSS}/reference", "none"))
    if loss.objective == "next_token":
        return
    why = {
        "reward": "a head of one value has no cross entropy, nor logits of a vocabulary",
        "preference": "a loss of preferences reads log-probabilities of all tokens",
    }[loss.objective]
    if loss.cross_entropy != "unfused":
        pointer = f"{LOSS}/cross_entropy"
        findings.add(pointer, "conflict", why, put(pointer, "unfused"))
    if loss.logits_to_keep is not None:
        pointer = f"{LOSS}/logits_to_keep"
        findings.add(pointer, "conflict", why, put(pointer, None))


def _check_preference(job: Job, layout: Layout, findings: Findings) -> None:
    """Who the reference is, and how its forward is shared out."""
    loss, pointer = job.training.loss, f"{LOSS}/reference"
    if loss.reference == "base" and job.training.peft is None:
        message = "a model without adapters is no reference for itself"
        findings.add(pointer, "conflict", message, put(pointer, "copy"))
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep}
    for name in [name for name, size in sizes.items() if size > 1]:
        where, message = f"/parallelism/{name}", f"{name} > 1 beside a loss of preferences"
        findings.add(where, "not_modelled", f"{message} is not modelled", put(where, 1))
