"""Options that change memory and are not modelled: refused by name rather than guessed."""

from collections.abc import Iterator

from trainfit.resolve.findings import Findings
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.training import Precision


def refuse_not_modelled(job: Job, findings: Findings) -> None:
    """A finding for every option of the job that the estimator cannot price."""
    for pointer, what in _not_modelled(job):
        findings.add(pointer, "not_modelled", f"{what} changes memory and is not modelled yet")
    findings.refuse()


def _not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    if not isinstance(job.framework, Megatron):
        yield "/framework/name", f"the framework {job.framework.name}"
        return
    yield from _training(job)


def _training(job: Job) -> Iterator[tuple[str, str]]:
    training = job.training
    precision, optimizer, moe = training.precision, training.optimizer, training.moe
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.main_params):
            yield "/training/precision", "fp8 other than by a recipe"
    elif precision not in ("bf16", "fp16", "fp32", "fp8"):
        yield "/training/precision", f"the precision {precision} under Megatron"
    if optimizer.name in ("adamw8bit", "adafactor"):
        yield "/training/optimizer/name", f"{optimizer.name} under Megatron"
    if optimizer.implementation != "fused":
        yield "/training/optimizer/implementation", f"a {optimizer.implementation} step"
    if training.attention.backend in ("eager", "sdpa"):
        yield "/training/attention/backend", f"{training.attention.backend} under Megatron"
    if training.loss.cross_entropy in ("liger", "chunked"):
        yield "/training/loss/cross_entropy", f"{training.loss.cross_entropy} under Megatron"
    if moe.token_dispatcher_type == "flex":
        yield "/training/moe/token_dispatcher_type", f"the dispatcher {moe.token_dispatcher_type}"
    if training.peft is not None:
        yield "/training/peft", "parameter-efficient fine-tuning"
