"""What a step learns beside the next token."""

from trainfit.resolve.findings import Findings, put
from trainfit.resolve.plan import Layout
from trainfit.resolve.pytorch.plan import PolicyLoss, Preference
from trainfit.specs.architecture import ModelSpec, OutputLayer
from trainfit.specs.job import Job
from trainfit.specs.loss import Loss

LOSS = "/training/loss"
VERL, OPENRLHF = "verl", "openrlhf"
OF_ACTOR = (VERL, OPENRLHF)
"""Code of an actor: it packs tokens, looks at entropies, and shares samples among ranks."""
OF_POLICY, ANY = ("trl-grpo", *OF_ACTOR), "trl-1.15"
EITHER = (ANY, OPENRLHF)
"""Code that computes log-probabilities of what is generated alone, and that does of either: TRL's
makes tiles of logits since 1.15, and one kernel reads all of OpenRLHF's."""
PADDED, HEAD_IN_ONE = "verl-padded", "verl-fused"


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


def policy_of(loss: Loss) -> PolicyLoss | None:
    """How log-probabilities are computed of what a policy has generated."""
    if loss.objective != "policy":
        return None
    copy, scored = loss.reference == "copy", loss.scored_tokens or 0
    beside = loss.scored_beside_optimizer
    return PolicyLoss(loss.log_probs_by, copy, loss.entropy, scored, beside)


def check_objective(job: Job, layout: Layout, findings: Findings) -> None:
    """Values have no logits of a vocabulary, and log-probabilities are of all of them."""
    loss = job.training.loss
    if loss.objective in ("preference", "policy"):
        _check_log_probabilities(job, layout, findings)
    elif loss.reference != "none":
        message = "only a loss over log-probabilities has a reference"
        findings.add(f"{LOSS}/reference", "conflict", message, put(f"{LOSS}/reference", "none"))
    if loss.objective != "policy" and loss.scored_tokens is not None:
        message = "only a policy's samples are scored before a step"
        findings.add(
            f"{LOSS}/scored_tokens", "conflict", message, put(f"{LOSS}/scored_tokens", None)
        )
    if loss.entropy != "none":
        _check_entropy(loss, findings)
    if loss.objective == "next_token":
        return
    why = {
        "reward": "a head of one value has no cross entropy, nor logits of a vocabulary",
        "preference": "a loss of preferences reads log-probabilities of all tokens",
        "policy": "the loss of a policy reads log-probabilities",
    }[loss.objective]
    if loss.cross_entropy != "unfused":
        pointer = f"{LOSS}/cross_entropy"
        findings.add(pointer, "conflict", why, put(pointer, "unfused"))
    if loss.logits_to_keep is not None and loss.objective != "policy":
        pointer = f"{LOSS}/logits_to_keep"
        findings.add(pointer, "conflict", why, put(pointer, None))


def _check_entropy(loss: Loss, findings: Findings) -> None:
    """An actor alone is asked for one: verl's compiles it where samples are packed, OpenRLHF's
    always.
    """
    pointer = f"{LOSS}/entropy"
    if loss.objective != "policy" or not loss.log_probs_by.startswith(OF_ACTOR):
        message = "an entropy is asked for of an actor of verl's or OpenRLHF's alone"
        findings.add(pointer, "conflict", message, put(pointer, "none"))
    elif loss.log_probs_by.startswith(OPENRLHF) and loss.entropy in ("whole", "remade"):
        message = "OpenRLHF's entropy is compiled"
        findings.add(pointer, "conflict", message, put(pointer, "compiled"))
    elif loss.log_probs_by == PADDED and loss.entropy == "compiled":
        message = "the entropy of padded samples is not compiled"
        findings.add(pointer, "conflict", message, put(pointer, "whole"))
    elif loss.log_probs_by == HEAD_IN_ONE and loss.entropy in ("whole", "remade"):
        message = "a head in one with log-probabilities makes the entropy of a few tokens at a time"
        findings.add(pointer, "conflict", message, put(pointer, "compiled"))


def _check_log_probabilities(job: Job, layout: Layout, findings: Findings) -> None:
    """Whose code computes them, who the reference is, and how its forward is shared out."""
    loss, pointer = job.training.loss, f"{LOSS}/reference"
    of_policy = loss.log_probs_by.startswith(OF_POLICY)
    if loss.log_probs_by not in EITHER and of_policy != (loss.objective == "policy"):
        where, whose = f"{LOSS}/log_probs_by", "a policy" if of_policy else "preferences"
        message = f"{loss.log_probs_by} computes log-probabilities for a loss of {whose}"
        findings.add(where, "conflict", message, put(where, ANY))
    if loss.reference == "base" and job.training.peft is None:
        message = "a model without adapters is no reference for itself"
        findings.add(pointer, "conflict", message, put(pointer, "copy"))
    sizes = {"tp": layout.tp, "cp": layout.cp, "ep": layout.ep}
    of_actor = loss.objective == "policy" and loss.log_probs_by.startswith(OF_ACTOR)
    if of_actor and loss.log_probs_by != PADDED:
        del sizes["cp"]
    if of_actor and loss.log_probs_by.startswith(OPENRLHF):
        del sizes["tp"]  # DeepSpeed gathers the logits of all ranks
    for name in [name for name, size in sizes.items() if size > 1]:
        where, message = f"/parallelism/{name}", f"{name} > 1 beside a loss over log-probabilities"
        findings.add(where, "not_modelled", f"{message} is not modelled", put(where, 1))
