"""Parts of a model that are not trained."""

from trainfit.resolve.findings import Findings, put
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.job import Job
from trainfit.specs.training import Training

FREEZABLE = (
    "embed_tokens",
    "lm_head",
    "norm",
    "final_norm",
    "router",
    "vision_tower",
    "multi_modal_projector",
    "language_model",
)
"""Modules that can be frozen by themselves. For all but adapters there is peft."""
TOWERS = frozenset({"vision_tower", "multi_modal_projector"})
"""What feeds a language model."""
OF_LANGUAGE_MODEL = frozenset({"embed_tokens", "lm_head", "norm"})
"""What a language model has besides layers."""


def frozen_modules(training: Training) -> frozenset[str]:
    frozen = frozenset(training.frozen)
    return frozen | OF_LANGUAGE_MODEL if "language_model" in frozen else frozen


def with_frozen_layers(model: ModelSpec, training: Training) -> ModelSpec:
    """The model, layers that are not trained of kinds of their own."""
    total = model.num_layers
    first, last = training.num_frozen_layers, training.num_frozen_last_layers
    whole = "language_model" in training.frozen
    still = {i for i in range(total) if whole or i < first or i >= total - last}
    return model.with_layers(still, lambda layer: layer.with_sublayers(trainable=False))


def check_frozen(job: Job, model: ModelSpec, findings: Findings) -> None:
    """Parts that a model has, and that can be frozen."""
    for name in job.training.frozen:
        if name not in FREEZABLE:
            known = ", ".join(FREEZABLE)
            findings.add(
                "/training/frozen", "not_modelled", f"modules that can be frozen are {known}"
            )
            break
    check_frozen_modules(job, model, findings)
    _check_frozen_layers(job, model, findings)


def check_frozen_modules(job: Job, model: ModelSpec, findings: Findings) -> None:
    """What a model has of its own that can be frozen, and what is left to train."""
    pointer, named = "/training/frozen", frozenset(job.training.frozen)
    if (alone := named & TOWERS) and not model.encoder_parameters:
        message = f"the model has no {', '.join(sorted(alone))}"
        findings.add(pointer, "conflict", message)
    elif len(alone) == 1 and model.projector_parameters is None:
        message = f"of this model only {' and '.join(sorted(TOWERS))} together can be frozen"
        findings.add(pointer, "not_modelled", message, put(pointer, sorted(named | TOWERS)))
    if "language_model" in named and (alone == TOWERS or not model.encoder_parameters):
        findings.add(pointer, "conflict", "nothing is left that is trained")
    if "router" in named and not any(kind.has_experts for kind in model.layer_kinds):
        findings.add(pointer, "conflict", "the model has no router")


def _check_frozen_layers(job: Job, model: ModelSpec, findings: Findings) -> None:
    first, last = job.training.num_frozen_layers, job.training.num_frozen_last_layers
    for name, count in (("num_frozen_layers", first), ("num_frozen_last_layers", last)):
        pointer = f"/training/{name}"
        if count > model.num_layers:
            message = f"the model has {model.num_layers} layers"
            findings.add(pointer, "too_many_layers", message, put(pointer, model.num_layers))
        if count and job.training.peft is not None:
            message = "adapters freeze every layer themselves"
            findings.add(pointer, "conflict", message, put(pointer, 0))
