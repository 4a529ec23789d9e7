"""Options that change memory and are not modelled: refused by name rather than guessed."""

from collections.abc import Iterator

from trainfit.resolve.findings import Findings
from trainfit.resolve.honoured import refused
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.training import Precision


def refuse_not_modelled(job: Job, findings: Findings) -> None:
    """A finding for every option of the job that the estimator cannot estimate."""
    for pointer, what in _not_modelled(job):
        findings.add(pointer, "not_modelled", f"{what} changes memory and is not modelled yet")
    findings.refuse()


def _not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    yield from refused(job)
    if isinstance(job.framework, Megatron):
        yield from _megatron(job)
    else:
        yield from _pytorch(job)


def _megatron(job: Job) -> Iterator[tuple[str, str]]:
    precision, optimizer, moe = job.training.precision, job.training.optimizer, job.training.moe
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.main_params):
            yield "/training/precision", "fp8 other than by a recipe"
    elif precision not in ("bf16", "fp16", "fp32", "fp8"):
        yield "/training/precision", f"the precision {precision} under Megatron"
    if not OPTIMIZERS[optimizer.name].megatron:
        yield "/training/optimizer/name", f"{optimizer.name} under Megatron"
    if moe.token_dispatcher_type == "flex" and moe.flex_dispatcher_backend != "hybridep":
        yield "/training/moe/token_dispatcher_type", "the dispatcher flex with DeepEP's own kernels"


def _pytorch(job: Job) -> Iterator[tuple[str, str]]:
    training, name = job.training, job.framework.name
    precision = training.precision
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.gradients):
            yield "/training/precision", "fp8 other than by a recipe"
        if precision.fp8_recipe not in (None, "tensorwise", "rowwise"):
            yield "/training/precision/fp8_recipe", f"{precision.fp8_recipe} under {name}"
    if training.moe.imbalance_factor > 1 and job.parallelism.ep > 1:
        yield "/training/moe/imbalance_factor", f"an uneven load of experts under {name}"
    if training.mtp is not None and training.mtp.num_layers:
        yield "/training/mtp/num_layers", f"multi-token prediction under {name}"
