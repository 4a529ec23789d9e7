"""Options that change memory and are not modelled: refused by name rather than guessed."""

from collections.abc import Iterator

from trainfit.resolve.findings import Findings
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
    if isinstance(job.framework, Megatron):
        yield from _megatron(job)
    else:
        yield from _pytorch(job)


def _megatron(job: Job) -> Iterator[tuple[str, str]]:
    training = job.training
    precision, optimizer, moe = training.precision, training.optimizer, training.moe
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.main_params):
            yield "/training/precision", "fp8 other than by a recipe"
    elif precision not in ("bf16", "fp16", "fp32", "fp8"):
        yield "/training/precision", f"the precision {precision} under Megatron"
    if not OPTIMIZERS[optimizer.name].megatron:
        yield "/training/optimizer/name", f"{optimizer.name} under Megatron"
    if optimizer.implementation != "fused":
        yield "/training/optimizer/implementation", f"a {optimizer.implementation} step"
    if training.attention.backend in ("eager", "sdpa"):
        yield "/training/attention/backend", f"{training.attention.backend} under Megatron"
    if training.loss.cross_entropy in ("fused", "liger", "chunked", "chunked_nll"):
        yield "/training/loss/cross_entropy", f"{training.loss.cross_entropy} under Megatron"
    if moe.token_dispatcher_type == "flex" and moe.flex_dispatcher_backend != "hybridep":
        yield "/training/moe/token_dispatcher_type", "the dispatcher flex with DeepEP's own kernels"
    if training.peft is not None:
        yield "/training/peft", "parameter-efficient fine-tuning"
    if training.attention.repeats_kv:
        yield "/training/attention/repeats_kv", "repeats_kv under Megatron"
    if training.offload_activations:
        yield "/training/offload_activations", "other than offload_modules under Megatron"
    for name in ("frozen", "num_frozen_layers", "num_frozen_last_layers"):
        if getattr(training, name):
            yield f"/training/{name}", "freezing under Megatron"
    if training.loss.shifted != "labels":
        yield "/training/loss/shifted", "logits that are shifted under Megatron"
    if training.loss.logits_to_keep is not None:
        yield "/training/loss/logits_to_keep", "logits_to_keep under Megatron"
    if optimizer.paged or optimizer.in_backward:
        yield "/training/optimizer", "a paged optimizer, or a step in backward, under Megatron"
    if training.recompute.every_nth_layer > 1:
        yield "/training/recompute/every_nth_layer", "every_nth_layer under Megatron"
    if not training.recompute.frozen_layers:
        yield "/training/recompute/frozen_layers", "frozen_layers under Megatron"
    if (schedule := job.parallelism.pipeline_schedule) in ("looped-bfs", "interleaved-zb"):
        yield "/parallelism/pipeline_schedule", f"{schedule} under Megatron"


def _pytorch(job: Job) -> Iterator[tuple[str, str]]:
    training, layout = job.training, job.parallelism
    name = job.framework.name
    precision, moe = training.precision, training.moe
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.gradients):
            yield "/training/precision", "fp8 other than by a recipe"
        if precision.fp8_recipe not in (None, "tensorwise", "rowwise"):
            yield "/training/precision/fp8_recipe", f"{precision.fp8_recipe} under {name}"
    if training.attention.backend in ("fused", "unfused"):
        yield "/training/attention/backend", f"{training.attention.backend} under {name}"
    if training.loss.cross_entropy in ("native_fused", "te_fused"):
        yield "/training/loss/cross_entropy", f"{training.loss.cross_entropy} under {name}"
    if training.offload_modules:
        yield "/training/offload_modules", f"offloading of modules under {name}"
    if training.optimizer.cpu_offload_fraction:
        yield "/training/optimizer/cpu_offload_fraction", f"an optimizer on the host under {name}"
    if training.optimizer.precision_aware:
        yield "/training/optimizer/precision_aware", f"a precision-aware optimizer under {name}"
    if training.recompute.modules is not None or training.recompute.method == "block":
        yield "/training/recompute", f"recompute by modules or blocks under {name}"
    if moe.expert_capacity_factor is not None:
        yield "/training/moe/expert_capacity_factor", f"a capacity of experts under {name}"
    if moe.imbalance_factor > 1 and layout.ep > 1:
        yield "/training/moe/imbalance_factor", f"an uneven load of experts under {name}"
    if training.mtp is not None and training.mtp.num_layers:
        yield "/training/mtp/num_layers", f"multi-token prediction under {name}"
    if layout.pipeline_schedule in ("zb-h1", "zb-h2", "dualpipe"):
        yield "/parallelism/pipeline_schedule", f"{layout.pipeline_schedule} under {name}"
