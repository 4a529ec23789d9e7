"""A job -> torchtitan's keys: what `trainfit.launch.torchtitan` reads, the other way round.

The keys are those of v0.2.2, the last release that a TOML file configures. They name no card,
and nothing of the allocator, which a variable sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from trainfit.launch.convert.unsaid import unsaid
from trainfit.launch.torchtitan.flavors import FLAVORS, Flavor, flavor_of
from trainfit.launch.torchtitan.keys import (
    DTYPES,
    MULTI_STAGE_SCHEDULES,
    ROTATE_METHODS,
    SINGLE_STAGE_SCHEDULES,
)
from trainfit.launch.torchtitan.releases import release_named
from trainfit.resolve.findings import Findings, RefusedError
from trainfit.resolve.layout import pipeline_schedule, sharding_strategy, smallest_world
from trainfit.resolve.pipeline import split, virtual_pipeline_size
from trainfit.resolve.pytorch.pipelining import weighed
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Torchtitan
from trainfit.specs.job import Job
from trainfit.specs.model import Model
from trainfit.specs.pipeline_layout import VirtualStage
from trainfit.specs.precision import WIDE_LAYERS, Precision

RELEASE = release_named("v0.2.2")

NO_KEY = unsaid(
    "torchtitan",
    {
        "/framework/shard_embedding_and_head_apart": (True,),
        "/framework/collect_outputs": (False,),
        "/framework/fuse_qkv": (False,),
        "/framework/remake_attention": ("never",),
        "/training/attention/backend": ("auto", "sdpa"),
        "/training/attention/dropout": (None, 0.0),
        "/training/attention/repeats_kv": (False,),
        "/training/frozen": ((),),
        "/training/hidden_dropout": (None, 0.0),
        "/training/image_tokens": (None,),
        "/training/lengths": (None,),
        "/training/loss/cross_entropy": ("unfused", "fused"),
        "/training/loss/logits_to_keep": (None,),
        "/training/loss/num_chunks": (8,),
        "/training/loss/objective": ("next_token",),
        "/training/loss/shifted": ("labels",),
        "/training/moe/fp8_recipe": (None,),
        "/training/moe/imbalance_factor": (1.0,),
        "/training/num_frozen_last_layers": (0,),
        "/training/num_frozen_layers": (0,),
        "/training/offload_activations": (False,),
        "/training/optimizer/embedding_moments_in_fp32": (None, False),
        "/training/optimizer/exp_avg_dtype": (None,),
        "/training/optimizer/exp_avg_sq_dtype": (None,),
        "/training/optimizer/momentum": (None,),
        "/training/optimizer/muon_nesterov": (False,),
        "/training/optimizer/muon_tp_mode": ("blockwise",),
        "/training/optimizer/name": ("adam",),
        "/training/optimizer/paged": (False,),
        "/training/peft": (None,),
        "/training/recompute/frozen_layers": (True,),
        "/training/recompute/num_layers": (None, 1),
        "/training/recompute/method": (None, "uniform"),
    },
    said={
        "/parallelism/account_for_embedding_in_pipeline_split",
        "/parallelism/account_for_loss_in_pipeline_split",
        "/parallelism/cp_comm_type",
    },
)
"""Fields that no key sets, at the values that torchtitan means without one."""


Settings = dict[str, Any]


def torchtitan_settings(job: Job) -> Settings:
    """The keys of a job by their dotted names.

    Read back, started on as many GPUs, they make the same plan. Raises RefusedError with a finding
    for every field that no key can express.
    """
    findings = Findings()
    if not isinstance(job.framework, Torchtitan):
        _refuse(findings, "/framework/name", f"{job.framework.name} is not torchtitan")
        raise RefusedError(tuple(findings.found))
    for pointer, usual in NO_KEY.items():
        if (value := _at(job, pointer)) not in usual:
            _refuse(findings, pointer, f"no key of torchtitan says {value!r}")
    if job.training.mtp is not None and job.training.mtp.num_layers:
        _refuse(findings, "/training/mtp", "torchtitan trains no multi-token prediction")
    named = _named(job.model)
    if named is None:
        message = "torchtitan names its models by flavour, and this is none; it may list one of it"
        _refuse(findings, "/model", message)
        raise RefusedError(tuple(findings.found))
    degrees = _degrees(job, findings)
    settings = dict(
        [
            ("model.name", named.name),
            ("model.flavor", named.flavor),
            *_layout(job, degrees, named.model.experts, findings),
            *_stages(job, named.model.num_layers, findings),
            *_batch(job, degrees, findings),
            *_precision(job, degrees, findings),
            *_recompute(job, findings),
            ("optimizer.name", "AdamW"),
            ("optimizer.implementation", job.training.optimizer.implementation),
            ("optimizer.early_step_in_backward", job.training.optimizer.in_backward),
            *_compiled(job),
            ("parallelism.disable_loss_parallel", not job.framework.loss_parallel),
            (
                "parallelism.fsdp_reshard_after_forward",
                job.framework.fsdp_reshard_after_forward,
            ),
        ]
    )
    findings.refuse()
    return settings


def _compiled(job: Job) -> Iterator[tuple[str, Any]]:
    """A loss of one kernel over the logits is a compiled one."""
    assert isinstance(job.framework, Torchtitan)
    loss = job.training.loss.cross_entropy == "fused"
    parts = {"model": job.framework.compile, "loss": loss}
    compiled = [part for part, wanted in parts.items() if wanted]
    yield "compile.enable", bool(compiled)
    if len(compiled) == 1:
        yield "compile.components", compiled


def torchtitan_options(job: Job) -> list[str]:
    """The options of a job. Raises RefusedError as above, and where only a file can say it."""
    words = []
    for key, value in torchtitan_settings(job).items():
        section, _, name = key.rpartition(".")
        if isinstance(value, bool):
            words.append(f"--{section}.{name if value else f'no-{name}'}")
        elif isinstance(value, list) and not all(isinstance(each, str) for each in value):
            findings = Findings()
            message = f"an option has no place for {key}; write it to a file"
            _refuse(findings, "/parallelism", message)
            raise RefusedError(tuple(findings.found))
        else:
            said = ",".join(value) if isinstance(value, list) else value
            words.append(f"--{key}={said}")
    return words


def torchtitan_toml(job: Job) -> str:
    """The TOML file of a job."""
    tables = groupby(
        sorted(torchtitan_settings(job).items(), key=lambda each: each[0].rpartition(".")[0]),
        key=lambda each: each[0].rpartition(".")[0],
    )
    return "\n".join(
        f"[{table}]\n"
        + "".join(f"{key.rpartition('.')[2]} = {json.dumps(value)}\n" for key, value in settings)
        for table, settings in tables
    )


class RegisteredModel(NamedTuple):
    """A model of torchtitan's registries, and what it is called there."""

    name: str
    flavor: str
    model: Flavor


def _named(model: Model) -> RegisteredModel | None:
    for name, flavors in FLAVORS.items():
        for flavor in flavors:
            found = flavor_of(name, flavor, RELEASE)
            if found is not None and Model.model_validate(found.model(RELEASE)) == model:
                return RegisteredModel(name, flavor, found)
    return None


class DataParallelDegrees(NamedTuple):
    """Data-parallel ranks: replicas, and ranks that share out what one of them holds."""

    replicate: int
    shard: int
    shards: bool
    """Whether FSDP runs."""


def _degrees(job: Job, findings: Findings) -> DataParallelDegrees:
    """Degrees that make FSDP or DDP of the same ranks as the job."""
    given = job.parallelism
    etp = given.etp or 1
    world = given.num_gpus or smallest_world(given, etp)
    dp = max(1, world // (given.tp * given.pp * given.cp))
    if dp * given.tp * given.pp * given.cp != world:
        _refuse(findings, "/parallelism/num_gpus", f"{world} GPUs are no multiple of the degrees")
    strategy = sharding_strategy(job.parallelism, conventions_of(job), findings)
    pointer = "/parallelism/data_parallel_sharding_strategy"
    replicas = given.data_parallel_replicate_size
    if strategy == "no_shard":
        if given.cp > 1 or given.ep > 1 or (dp > 1 and given.tp * given.pp > 1) or replicas > 1:
            _refuse(findings, pointer, "torchtitan replicates beside no other parallelism")
        return DataParallelDegrees(dp, 1, False)
    if strategy != "optim_grads_params":
        _refuse(findings, pointer, f"no key of torchtitan says {strategy}")
    if dp % replicas:
        pointer = "/parallelism/data_parallel_replicate_size"
        _refuse(findings, pointer, f"{dp} data-parallel ranks are no multiple of {replicas}")
        return DataParallelDegrees(1, dp, True)
    shard = dp // replicas
    if shard == 1 and given.cp == 1 and given.ep == 1:
        _refuse(findings, pointer, "torchtitan shards over two ranks or more")
    return DataParallelDegrees(replicas, shard, True)


def _layout(
    job: Job, degrees: DataParallelDegrees, experts: bool, findings: Findings
) -> Iterator[tuple[str, Any]]:
    given = job.parallelism
    section = "parallelism"
    yield f"{section}.data_parallel_replicate_degree", degrees.replicate
    yield f"{section}.data_parallel_shard_degree", degrees.shard
    yield f"{section}.tensor_parallel_degree", given.tp
    yield f"{section}.context_parallel_degree", given.cp
    yield f"{section}.pipeline_parallel_degree", given.pp
    yield f"{section}.expert_parallel_degree", given.ep
    divided = given.tp if given.ep == 1 and experts else 1
    if given.ep > 1:
        divided = given.etp or 1
        yield f"{section}.expert_tensor_parallel_degree", divided
    if given.etp not in (None, divided) or divided not in (1, given.tp):
        message = f"torchtitan divides experts by {divided} tensor-parallel ranks here"
        _refuse(findings, "/parallelism/etp", message)
    if given.sequence_parallel is False and given.tp > 1:
        pointer = "/parallelism/sequence_parallel"
        _refuse(findings, pointer, "torchtitan shares sequences out with tensor parallelism")
    methods = {value: key for key, value in ROTATE_METHODS.items()}
    if given.cp_comm_type in methods:
        yield f"{section}.context_parallel_rotate_method", methods[given.cp_comm_type]
    else:
        message = f"no key of torchtitan says {given.cp_comm_type}"
        _refuse(findings, "/parallelism/cp_comm_type", message)


def _stages(job: Job, layers: int, findings: Findings) -> Iterator[tuple[str, Any]]:
    """The schedule, and the split over stages where it is not the one that torchtitan makes."""
    given, section = job.parallelism, "parallelism"
    chunks = virtual_pipeline_size(given, layers, findings)
    schedule = pipeline_schedule(given, chunks, findings)
    stages = split(given, layers, 0, chunks, findings, partial(weighed, layers))
    if given.microbatch_group_size_per_vp_stage not in (None, given.pp):
        pointer = "/parallelism/microbatch_group_size_per_vp_stage"
        _refuse(findings, pointer, "torchtitan interleaves as many micro-batches as stages")
    if given.pp == 1:
        if schedule != "1f1b" or chunks > 1:
            pointer = "/parallelism/pipeline_schedule"
            _refuse(findings, pointer, "a schedule goes with a pipeline")
        return
    single = {value: key for key, value in SINGLE_STAGE_SCHEDULES.items()}
    several = {value: key for key, value in MULTI_STAGE_SCHEDULES.items()}
    if schedule not in single | several:
        pointer = "/parallelism/pipeline_schedule"
        _refuse(findings, pointer, f"no key of torchtitan says {schedule}")
        return
    yield f"{section}.pipeline_parallel_schedule", (single | several)[schedule]
    even = given.model_copy(
        update={
            "num_layers_in_first_pipeline_stage": None,
            "num_layers_in_last_pipeline_stage": None,
            "pipeline_model_parallel_layout": None,
            "account_for_embedding_in_pipeline_split": False,
            "account_for_loss_in_pipeline_split": False,
        }
    )
    usual = split(even, layers, 0, chunks, Findings(), partial(weighed, layers))
    each = ceil((layers + 2) / (given.pp * chunks))
    if stages == usual and chunks == (1 if schedule in single else 2):
        return
    if stages == usual and ceil((layers + 2) / each) == given.pp * chunks:
        yield f"{section}.pipeline_parallel_layers_per_stage", each
    elif stages:
        yield f"{section}.module_fqns_per_model_part", list(_modules(stages))


def _modules(stages: Sequence[VirtualStage]) -> Iterator[list[str]]:
    first = 0
    for stage in stages:
        layers = [f"layers.{layer}" for layer in range(first, first + stage.layers)]
        first += stage.layers
        yield [
            *(["tok_embeddings"] if stage.embedding else []),
            *layers,
            *(["norm", "output"] if stage.output_layer else []),
        ]


def _batch(job: Job, degrees: DataParallelDegrees, findings: Findings) -> Iterator[tuple[str, Any]]:
    """With a pipeline the local batch is what one run of it reads, cut into its micro-batches."""
    training, pp = job.training, job.parallelism.pp
    dp = degrees.replicate * degrees.shard
    size, count = training.micro_batch_size, training.num_microbatches
    if training.global_batch_size is not None:
        count, rest = divmod(training.global_batch_size, size * dp)
        if rest or training.num_microbatches not in (None, count):
            message = "the samples of a step are no whole number of micro-batches"
            _refuse(findings, "/training/global_batch_size", message)
    yield "training.seq_len", training.seq_length
    if pp == 1:
        yield "training.local_batch_size", size
        if count is not None:
            yield "training.global_batch_size", size * dp * count
        return
    if count is None:
        message = "torchtitan takes the samples of a pipeline's run; give num_microbatches"
        _refuse(findings, "/training/num_microbatches", message)
    yield "training.local_batch_size", size * (count or 1)
    yield "parallelism.pipeline_parallel_microbatch_size", size


PRESETS: Mapping[str, Precision] = {
    "bf16": Precision(params="fp32", compute="bf16"),
    "fp32": Precision(params="fp32", compute="fp32"),
}
"""What a preset means where torchtitan runs."""


RECIPE_KEYS: Mapping[str, tuple[str, str, str]] = {
    "tensorwise": ("float8", "quantize.linear.float8.recipe_name", "tensorwise"),
    "rowwise": ("float8", "quantize.linear.float8.recipe_name", "rowwise"),
    "mxfp8": ("quantize.linear.mx", "quantize.linear.mx.recipe_name", "mxfp8_cublas"),
}
"""The converter of a recipe, and the key that names it to that."""


def _precision(
    job: Job, degrees: DataParallelDegrees, findings: Findings
) -> Iterator[tuple[str, Any]]:
    """Beside tensor or pipeline parallelism without FSDP nothing is narrowed."""
    stated, pointer = job.training.precision, "/training/precision"
    narrowed = degrees.shards or job.parallelism.tp * job.parallelism.pp == 1
    if stated == "autocast-bf16" and not degrees.shards:
        stated = "bf16"
    precision = stated if isinstance(stated, Precision) else PRESETS.get(stated)
    words = {value: key for key, value in DTYPES.items()}
    if (
        precision is None
        or {precision.params, precision.compute} - words.keys()
        or (precision.gradients, precision.main_params) != ("fp32", "fp32")
        or precision.fp8_param_gather
        or precision.fp8_recipe not in (None, *RECIPE_KEYS)
        or precision.fp4_recipe is not None
        or any(getattr(precision, name) for name in WIDE_LAYERS)
        or not (narrowed or precision.params == precision.compute)
    ):
        _refuse(findings, pointer, f"no keys of torchtitan say {stated!r} here")
        return
    yield "training.dtype", words[precision.params]
    yield "training.mixed_precision_param", words[precision.compute]
    if precision.fp8_recipe is not None:
        converter, key, recipe = RECIPE_KEYS[precision.fp8_recipe]
        yield "model.converters", [converter]
        yield key, recipe


def _recompute(job: Job, findings: Findings) -> Iterator[tuple[str, Any]]:
    given = job.training.recompute
    mode, option = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
    every = given.every_nth_layer
    if given.granularity != "full" and every > 1:
        pointer = "/training/recompute/every_nth_layer"
        _refuse(findings, pointer, "torchtitan skips layers where it recomputes them as a whole")
    if given.granularity is None:
        yield mode, "none"
    elif given.granularity == "full" and every == 1:
        yield mode, "full"
    else:
        yield mode, "selective"
        yield option, str(every) if given.granularity == "full" else "op"


def _refuse(findings: Findings, pointer: str, message: str) -> None:
    findings.add(pointer, "not_expressible", message)


def _at(job: Job, pointer: str) -> Any:
    return reduce(getattr, pointer.strip("/").split("/"), job)
