"""torchtitan and transformers, which have PyTorch run a model's own modules, to whoever resolves a
job of them.
"""

from collections.abc import Iterator
from typing import Any

from trainfit.resolve.batch import check_images, resolve_batch
from trainfit.resolve.defaults import derived, resolved_defaults
from trainfit.resolve.findings import Findings
from trainfit.resolve.framework import Conventions
from trainfit.resolve.freezing import with_frozen_layers
from trainfit.resolve.honoured import remarks
from trainfit.resolve.layout import resolve_layout
from trainfit.resolve.narrow import check_recipes, with_wide_layers
from trainfit.resolve.plan import Default, LeftOpen, ModelSource, Origin, TargetGpu
from trainfit.resolve.pytorch.objective import with_head
from trainfit.resolve.pytorch.pipelining import check_pipeline, weighed
from trainfit.resolve.pytorch.plan import PytorchPlan, PytorchStep
from trainfit.resolve.pytorch.precision import OF_TORCHTITAN, RECIPES
from trainfit.resolve.pytorch.step import resolve_pytorch_step
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.framework import Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.peft import Lora
from trainfit.specs.precision import ONLY_MEGATRON, Precision


def conventions(job: Job) -> Conventions:
    """torchtitan divides the width of experts over tensor-parallel ranks where it does not divide
    the experts (models/common/moe_sharding.py: expert_param_placement_dense). DeepSpeed's tensor
    parallelism leaves the sequence and the embedding whole.
    """
    given = job.parallelism
    if isinstance(job.framework, Torchtitan):
        return Conventions(
            sharding="optim_grads_params",
            etp_of_experts=given.tp if given.ep == 1 else 1,
            split=lambda model, stages: weighed(model.num_layers, stages),
        )
    assert isinstance(job.framework, Transformers)
    engine = job.framework.data_parallel_engine
    deepspeed = engine == "deepspeed"
    return Conventions(
        sharding="no_shard" if engine in (None, "ddp") else "optim_grads_params",
        shares_sequence=not deepspeed,
        trains_experts_whole=deepspeed,
        repeats_kv=deepspeed,
        divides_embedding=not deepspeed,
    )


OF_TRANSFORMERS_ALONE = {
    "fused": "adapters in one function with their products",
    "decomposed": "lengths that are learned beside adapters",
}
"""What adapters of torchtitan's models do not do."""


def not_modelled(job: Job) -> Iterator[tuple[str, str]]:
    training, name = job.training, job.framework.name
    precision = training.precision
    if isinstance(precision, Precision):
        if "fp8" in (precision.params, precision.compute, precision.gradients):
            yield "/training/precision", "fp8 other than by a recipe"
        known = RECIPES + (OF_TORCHTITAN if isinstance(job.framework, Torchtitan) else ())
        for field in ("fp8_recipe", "fp4_recipe"):
            recipe = getattr(precision, field)
            if recipe not in known:
                yield f"/training/precision/{field}", f"{recipe} under {name}"
        for field in ONLY_MEGATRON:
            if getattr(precision, field) != Precision.model_fields[field].default:
                yield f"/training/precision/{field}", f"{field} under {name}"
    if training.moe.imbalance_factor > 1 and job.parallelism.ep > 1:
        yield "/training/moe/imbalance_factor", f"an uneven load of experts under {name}"
    for field, what in OF_TRANSFORMERS_ALONE.items():
        asked = isinstance(training.peft, Lora) and getattr(training.peft, field)
        if asked and isinstance(job.framework, Torchtitan):
            yield f"/training/peft/{field}", f"{what} under {name}"
    if training.mtp is not None and training.mtp.num_layers:
        yield "/training/mtp/num_layers", f"multi-token prediction under {name}"


def plan(
    job: Job, model: ModelSpec, source: ModelSource, gpu: TargetGpu, findings: Findings
) -> PytorchPlan:
    """torchtitan and transformers train no multi-token prediction, and pad no vocabulary."""
    framework = job.framework
    assert isinstance(framework, Torchtitan | Transformers)
    own = conventions(job)
    model = with_head(with_frozen_layers(model, job.training), job.training.loss)
    if isinstance(job.training.precision, Precision):
        check_recipes(job.training.precision, findings)
        model = with_wide_layers(model, job.training.precision)
    layout = resolve_layout(job, model, 0, own, findings)
    batch = resolve_batch(job, layout, own, findings)
    check_pipeline(job, framework, layout, batch.num_microbatches, findings)
    step = resolve_pytorch_step(job, model, layout, gpu, findings)
    check_images(job, model, findings, followed=step.attention_backend != "eager")
    findings.refuse()

    def left_open() -> tuple[Default, ...]:
        found = derived(job, model, layout, batch, 0)
        return resolved_defaults(job, found | _defaults(job, step))

    return PytorchPlan(
        model=model,
        source=source,
        vocabulary_rows=model.embedding.rows,
        mtp_layers=0,
        layout=layout,
        batch=batch,
        step=step,
        framework=framework,
        gpu=gpu,
        defaults=LeftOpen(left_open),
        remarks=remarks(job),
    )


WIDTHS = {4: "fp32", 2: "bf16"}


def _defaults(job: Job, step: PytorchStep) -> dict[str, tuple[Any, Origin, str]]:
    """Values that frameworks have different defaults for, as PyTorch, or the model's config, has
    them.
    """
    optimizer = job.training.optimizer
    found: dict[str, tuple[Any, Origin, str]] = {}
    own = WIDTHS[step.states.master or step.states.gradients]
    for name in ("exp_avg_dtype", "exp_avg_sq_dtype"):
        if getattr(optimizer, name) is None:
            why = "moments are as the parameters that are stepped"
            found[f"/training/optimizer/{name}"] = (own, "framework", why)
    if job.training.attention.backend == "auto":
        why = "scaled_dot_product_attention, unless scores are capped or have sinks"
        found["/training/attention/backend"] = (step.attention_backend, "framework", why)
    peft = job.training.peft
    base = step.adapters.base_dtype if step.adapters is not None else None
    if peft is not None and peft.base_dtype is None and base is not None:
        why = "as transformers loads a checkpoint"
        if peft.quantization is not None:
            why = "as prepare_model_for_kbit_training leaves what is not quantised"
        elif base == "fp32":
            why = "as mixed precision of FSDP keeps what is trained"
        found["/training/peft/base_dtype"] = (base, "framework", why)
    if isinstance(job.framework, Transformers) and job.framework.data_parallel_engine is None:
        engine = step.data_parallelism.engine
        why = "ddp where nothing is sharded, else fsdp2"
        found["/framework/data_parallel_engine"] = (engine, "derived", why)
    return found
