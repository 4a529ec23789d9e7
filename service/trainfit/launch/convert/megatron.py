"""A job -> Megatron-LM's arguments: what `trainfit.launch.megatron` reads, the other way round.

The arguments are those of the latest release that is known. They name no number of GPUs, which is
the launcher's, no card, and nothing of the allocator, which a variable sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import groupby
from typing import Any, NamedTuple

from trainfit.launch.convert.unsaid import unsaid
from trainfit.launch.megatron.dimensions import EXPERTS, LATENT_ATTENTION, MODEL
from trainfit.launch.megatron.hybrid import MAMBA
from trainfit.launch.megatron.layout import PARALLELISM
from trainfit.launch.megatron.options import MegatronParser, Option, releases
from trainfit.launch.megatron.step import MOE, RECOMPUTE
from trainfit.launch.megatron.switches import FRAMEWORK, FUSIONS
from trainfit.resolve.findings import Findings, RefusedError, put
from trainfit.resolve.layout import sharding_strategy
from trainfit.resolve.megatron.precision import PRESETS
from trainfit.resolve.pipeline import virtual_pipeline_size
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Megatron
from trainfit.specs.job import Job
from trainfit.specs.part import Part
from trainfit.specs.precision import WIDE_LAYERS, Precision
from trainfit.specs.transformer_config import TransformerConfig

NO_ARGUMENT = unsaid(
    "megatron",
    {
        "/framework/deallocate_pipeline_outputs": (True,),
        "/training/loss/objective": ("next_token",),
        "/training/loss/shifted": ("labels",),
        "/training/moe/imbalance_factor": (1.0,),
        "/training/peft": (None,),
    },
    said={"/training/optimizer/momentum"},
)
"""Fields that no argument sets, at the values that a command line can mean."""


def megatron_arguments(job: Job) -> list[str]:
    """The arguments of a job whose model is given by `spec`.

    Read back, with the same number of GPUs, they make the same plan. Raises RefusedError with a
    finding for every field that no argument can express.
    """
    findings = Findings()
    framework, spec = job.framework, job.model.spec
    if not isinstance(framework, Megatron):
        findings.add("/framework/name", "not_expressible", f"{framework.name} is not Megatron-LM")
        raise RefusedError(tuple(findings.found))
    if spec is None:
        message = "Megatron-LM's arguments name dimensions; describe the model by its spec"
        findings.add("/model", "not_expressible", message)
        raise RefusedError(tuple(findings.found))
    for pointer, usual in NO_ARGUMENT.items():
        if (value := _at(job, pointer)) not in usual:
            message = f"no argument of Megatron-LM says {value!r}"
            findings.add(pointer, "not_expressible", message)
    said = [
        *_model(job, spec, findings),
        *_experts(job, spec),
        *_hybrid(job, spec, findings),
        *_parallelism(job, spec, findings),
        *_batch(job, findings),
        *_precision(job, findings),
        *_training(job),
        *_framework(framework, spec, findings),
    ]
    words = [word for each in said for word in _words(each, findings)]
    findings.refuse()
    return words


class Argument(NamedTuple):
    """An argument by its name in Megatron-LM's namespace, and the field of the job behind it."""

    dest: str
    value: Any
    pointer: str


def _words(said: Argument, findings: Findings) -> list[str]:
    """The option that sets an argument; none where the release sets it so by itself."""
    value = list(said.value) if isinstance(said.value, tuple) else said.value
    if value is None or value == MegatronParser(None).defaults().get(said.dest):
        return []
    for option in _options().get(said.dest, ()):
        if option.takes == 0:
            if option.sets == value:
                return [option.names[0]]
        elif _takes(option, value):
            values = value if isinstance(value, list) else [value]
            return [option.names[0], *map(str, values)]
    message = f"no argument of Megatron-LM says {said.value!r}"
    findings.add(said.pointer, "not_expressible", message)
    return []


def _takes(option: Option, value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return option.choices is None or all(each in option.choices for each in values)


@cache
def _options() -> Mapping[str, Sequence[Option]]:
    """The options of the latest release by what they set."""
    known = releases()
    options: dict[str, list[Option]] = {}
    for shapes in known.options.values():
        if shapes[-1].until == known.latest:
            options.setdefault(shapes[-1].dest, []).append(shapes[-1])
    return options


def _fields(part: Part, names: Mapping[str, str], prefix: str) -> Iterator[Argument]:
    for dest, field in names.items():
        yield Argument(dest, getattr(part, field), f"{prefix}/{field}")


def _model(job: Job, spec: TransformerConfig, findings: Findings) -> Iterator[Argument]:
    prefix = "/model/spec"
    activation = _activation(spec, findings)
    for said in _fields(spec, MODEL, prefix):
        if said.dest not in ("swiglu", "ffn_hidden_size", "mtp_num_layers"):
            yield said
    depths = spec.mtp_num_layers if job.training.mtp is None else job.training.mtp.num_layers
    yield Argument("mtp_num_layers", depths or None, f"{prefix}/mtp_num_layers")
    if activation is not None:
        yield Argument(activation, True, f"{prefix}/activation_func")
    ffn = spec.ffn_hidden_size
    by_swiglu = spec.swiglu or activation != "swiglu"
    yield Argument(
        "ffn_hidden_size",
        ffn if ffn or by_swiglu else 4 * spec.hidden_size,
        f"{prefix}/ffn_hidden_size",
    )
    yield Argument("vocab_size", spec.vocab_size, f"{prefix}/vocab_size")
    if spec.max_position_embeddings is None:
        message = "Megatron-LM needs --max-position-embeddings, whatever the positions are"
        findings.add(f"{prefix}/max_position_embeddings", "not_expressible", message)
    if spec.num_query_groups is not None:
        yield Argument("group_query_attention", True, f"{prefix}/num_query_groups")
        yield Argument("num_query_groups", spec.num_query_groups, f"{prefix}/num_query_groups")
    if spec.window_size is not None:
        yield Argument("window_size", f"({spec.window_size},0)", f"{prefix}/window_size")
    if spec.multi_latent_attention:
        yield from _fields(spec, LATENT_ATTENTION, prefix)


def _activation(spec: TransformerConfig, findings: Findings) -> str | None:
    """The argument that names the activation; none for the GeLU."""
    gated = spec.gated_linear_unit
    if gated is None:
        gated = spec.swiglu or spec.activation_func in ("swiglu", "geglu")
    func = "swiglu" if spec.swiglu and spec.activation_func == "gelu" else spec.activation_func
    try:
        return ACTIVATIONS[func, gated]
    except KeyError:
        message = f"no argument of Megatron-LM says {func}{' with a gate' if gated else ''}"
        findings.add("/model/spec/activation_func", "not_expressible", message)
        return None


ACTIVATIONS = {
    ("gelu", False): None,
    ("swiglu", True): "swiglu",
    ("silu", True): "swiglu",
    ("geglu", True): "quick_geglu",
    ("squared_relu", False): "squared_relu",
}
"""Activation and whether there is a gate -> the argument that says so."""


def _experts(job: Job, spec: TransformerConfig) -> Iterator[Argument]:
    prefix = "/model/spec"
    if spec.num_moe_experts is None:
        return
    yield Argument("num_experts", spec.num_moe_experts, f"{prefix}/num_moe_experts")
    yield from _fields(spec, EXPERTS, prefix)
    yield from _fields(job.training.moe, MOE, "/training/moe")
    frequency = spec.moe_layer_freq
    if not isinstance(frequency, int):
        runs = (f"[{flag}]*{len(list(run))}" for flag, run in groupby(frequency))
        yield Argument("moe_layer_freq", f"({'+'.join(runs)})", f"{prefix}/moe_layer_freq")
    else:
        yield Argument("moe_layer_freq", frequency, f"{prefix}/moe_layer_freq")


def _hybrid(job: Job, spec: TransformerConfig, findings: Findings) -> Iterator[Argument]:
    """The pattern tells of the layers of stages, and of multi-token prediction."""
    if spec.hybrid_layer_pattern is None:
        return
    layout = job.parallelism
    for name in SPLITS:
        if getattr(layout, name):
            message = "beside a pattern of layers Megatron-LM takes the bounds of stages in it"
            findings.add(f"/parallelism/{name}", "not_expressible", message)
    if job.training.mtp is not None:
        message = "beside a pattern of layers Megatron-LM takes what is predicted in it"
        findings.add("/training/mtp", "not_expressible", message)
    pointer = "/model/spec/hybrid_layer_pattern"
    yield Argument("hybrid_layer_pattern", spec.hybrid_layer_pattern, pointer)
    yield from _fields(spec, MAMBA, "/model/spec")


SPLITS = (
    "vpp",
    "num_layers_per_virtual_pipeline_stage",
    "pipeline_model_parallel_layout",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
)
"""Fields that split layers over stages and do not go with a pattern of layers."""


def _parallelism(job: Job, spec: TransformerConfig, findings: Findings) -> Iterator[Argument]:
    given, prefix = job.parallelism, "/parallelism"
    chunks = virtual_pipeline_size(given, spec.num_layers, findings)
    usual = "interleaved" if chunks > 1 else "1f1b"
    if given.pipeline_schedule not in (None, usual):
        message = f"Megatron-LM runs {usual} with {chunks} model chunks"
        findings.add(f"{prefix}/pipeline_schedule", "not_expressible", message)
    yield from _fields(given, {"tensor_model_parallel_size": "tp"} | PARALLELISM, prefix)
    sequence = given.tp > 1 if given.sequence_parallel is None else given.sequence_parallel
    yield Argument("sequence_parallel", sequence and given.tp > 1, f"{prefix}/sequence_parallel")
    yield Argument("cp_comm_type", [given.cp_comm_type], f"{prefix}/cp_comm_type")
    strategy = sharding_strategy(job.parallelism, conventions_of(job), findings)
    pointer = f"{prefix}/data_parallel_sharding_strategy"
    if strategy in ("optim_grads", "optim_grads_params"):
        yield Argument("use_megatron_fsdp", True, pointer)
        yield Argument("ckpt_format", "fsdp_dtensor", pointer)
        yield Argument("data_parallel_sharding_strategy", strategy, pointer)
        precision = job.training.precision
        stated = precision if isinstance(precision, Precision) else PRESETS.get(precision)
        gradients = None if stated is None else stated.gradients
        yield Argument("megatron_fsdp_main_grads_dtype", gradients, "/training/precision/gradients")
    yield Argument("use_distributed_optimizer", strategy != "no_shard", pointer)


def _batch(job: Job, findings: Findings) -> Iterator[Argument]:
    """A step is given by its samples, for which the data-parallel size has to be known."""
    training, layout = job.training, job.parallelism
    yield Argument("micro_batch_size", training.micro_batch_size, "/training/micro_batch_size")
    yield Argument("seq_length", training.seq_length, "/training/seq_length")
    samples = training.global_batch_size
    if samples is None and training.num_microbatches and layout.num_gpus:
        ranks = layout.num_gpus // (layout.tp * layout.pp * layout.cp)
        samples = training.num_microbatches * training.micro_batch_size * ranks
    if samples is None:
        message = "Megatron-LM takes the samples of a step; give global_batch_size"
        findings.add("/training/global_batch_size", "not_expressible", message)
    yield Argument("global_batch_size", samples, "/training/global_batch_size")


def _precision(job: Job, findings: Findings) -> Iterator[Argument]:
    stated, pointer = job.training.precision, "/training/precision"
    precision = stated if isinstance(stated, Precision) else PRESETS.get(stated)
    if precision is None or precision.params != precision.compute:
        message = f"no argument of Megatron-LM says {stated!r}"
        findings.add(pointer, "not_expressible", message)
        return
    held, gradients = precision.params, precision.gradients
    if held == "fp8" or gradients not in {"fp32", held} or (held, gradients) == ("fp32", "bf16"):
        message = f"no argument of Megatron-LM has {gradients} gradients of {held} weights"
        findings.add(pointer, "not_expressible", message)
    if held != "fp32":
        yield Argument(held, True, pointer)
    yield Argument("grad_reduce_in_bf16", gradients == "bf16", pointer)
    accumulates = (held, gradients) == ("fp16", "fp32")
    yield Argument("accumulate_allreduce_grads_in_fp32", accumulates, pointer)
    yield Argument("main_params_dtype", precision.main_params, f"{pointer}/main_params")
    if precision.fp8_recipe is not None:
        yield Argument("fp8", "hybrid", pointer)
        yield Argument("fp8_recipe", precision.fp8_recipe, f"{pointer}/fp8_recipe")
    yield Argument("fp8_param_gather", precision.fp8_param_gather, f"{pointer}/fp8_param_gather")
    if any(getattr(precision, name) for name in WIDE_LAYERS):
        yield Argument("first_last_layers_bf16", True, pointer)
        for name in WIDE_LAYERS:
            yield Argument(name, getattr(precision, name), f"{pointer}/{name}")


def _training(job: Job) -> Iterator[Argument]:
    training, prefix = job.training, "/training"
    optimizer = training.optimizer
    yield from _fields(optimizer, OPTIMIZER, f"{prefix}/optimizer")
    if share := optimizer.cpu_offload_fraction:
        pointer = f"{prefix}/optimizer/cpu_offload_fraction"
        yield Argument("optimizer_cpu_offload", True, pointer)
        yield Argument("optimizer_offload_fraction", share, pointer)
    yield from _fields(training.recompute, RECOMPUTE, f"{prefix}/recompute")
    yield Argument("recompute_modules", training.recompute.modules, f"{prefix}/recompute/modules")
    if training.offload_modules:
        yield Argument("fine_grained_activation_offloading", True, f"{prefix}/offload_modules")
        yield Argument("offload_modules", training.offload_modules, f"{prefix}/offload_modules")
    attention = training.attention
    yield Argument("attention_backend", attention.backend, f"{prefix}/attention/backend")
    yield Argument("attention_dropout", attention.dropout or 0.0, f"{prefix}/attention/dropout")
    yield Argument("hidden_dropout", training.hidden_dropout or 0.0, f"{prefix}/hidden_dropout")
    loss = training.loss.cross_entropy
    if loss != "unfused":
        pointer = f"{prefix}/loss/cross_entropy"
        yield Argument("cross_entropy_loss_fusion", True, pointer)
        yield Argument("cross_entropy_fusion_impl", loss.removesuffix("_fused"), pointer)


OPTIMIZER = {
    "optimizer": "name",
    "exp_avg_dtype": "exp_avg_dtype",
    "exp_avg_sq_dtype": "exp_avg_sq_dtype",
    "use_precision_aware_optimizer": "precision_aware",
    "sgd_momentum": "momentum",
    "muon_nesterov": "muon_nesterov",
    "muon_tp_mode": "muon_tp_mode",
}


def _framework(
    framework: Megatron, spec: TransformerConfig, findings: Findings
) -> Iterator[Argument]:
    mask = {"create_attention_mask_in_dataloader": "create_attention_mask_in_dataloader"}
    yield from _fields(framework, FRAMEWORK | mask, "/framework")
    fused, pointer = framework.bias_activation_fusion, "/framework/bias_activation_fusion"
    other = spec.activation_func == "geglu"
    if other and fused and not spec.add_bias_linear:
        message = "Megatron-LM fuses this gate only where linears have a bias"
        findings.add(pointer, "not_expressible", message, put(pointer, False))
    yield Argument(FUSIONS[other], fused, pointer)


def _at(job: Job, pointer: str) -> Any:
    return reduce(getattr, pointer.strip("/").split("/"), job)
