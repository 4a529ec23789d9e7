"""What a step learns beside the next token."""

from trainfit.resolve.findings import Findings, put
from trainfit.specs.architecture import ModelSpec, OutputLayer
from trainfit.specs.training import Loss


def with_head(model: ModelSpec, loss: Loss) -> ModelSpec:
    """The model with the head that its objective asks for: a reward is one value of a sample, as
    TRL loads it. Source: trl/trainer/reward_trainer.py (num_labels).
    """
    if loss.objective != "reward":
        return model
    head = OutputLayer(rows=1, width=model.output_layer.width, scores_labels=True)
    return model.model_copy(update={"output_layer": head})


def check_objective(loss: Loss, findings: Findings) -> None:
    """Values have no logits of a vocabulary."""
    if loss.objective != "reward":
        return
    if loss.cross_entropy != "unfused":
        pointer = "/training/loss/cross_entropy"
        message = "a head of one value has no cross entropy"
        findings.add(pointer, "conflict", message, put(pointer, "unfused"))
    if loss.logits_to_keep is not None:
        pointer = "/training/loss/logits_to_keep"
        message = "a head of one value has no logits of a vocabulary"
        findings.add(pointer, "conflict", message, put(pointer, None))
