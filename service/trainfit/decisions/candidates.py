"""Changes to a job that lower what it needs on a card, each with what it costs.

A candidate sets fields and is nothing but a proposal: whether the job still holds together, and
what is saved, only an estimate of the changed job tells. The number of GPUs stays as it was given
where it can, and so does the global batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import Any

from trainfit.resolve.findings import Findings
from trainfit.resolve.layout import default_etp, sharding_strategy, smallest_world
from trainfit.specs.framework import Megatron, Torchtitan, Transformers
from trainfit.specs.job import Job
from trainfit.specs.training import OffloadModule, Precision, RecomputeModule

RECOMPUTE = "/training/recompute"
OFFLOAD = "/training/offload_modules"


class Price(IntEnum):
    """What a change costs, cheapest first."""

    NOTHING = 0
    SPEED = 1
    COMMUNICATION = 2
    PRECISION = 3
    RECOMPUTATION = 4
    TRANSFERS = 5
    GPUS = 6
    TASK = 7


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of fields, by their path in the job."""

    values: dict[str, Any]
    price: Price
    cost: str


def together(a: Candidate, b: Candidate) -> Candidate | None:
    """Both changes at once: None where they are at odds. Modules to recompute or offload add up."""
    values = {**a.values, **b.values}
    for path in a.values.keys() & b.values.keys():
        first, second = a.values[path], b.values[path]
        if path == OFFLOAD:
            values[path] = list(dict.fromkeys([*first, *second]))
        elif path == RECOMPUTE and "modules" in first and "modules" in second:
            modules = dict.fromkeys([*first["modules"], *second["modules"]])
            values[path] = {**first, "modules": list(modules)}
        elif first != second:
            return None
    return Candidate(values, max(a.price, b.price), f"{a.cost}; {b.cost}")


def candidates(job: Job, num_gpus: int) -> Iterator[Candidate]:
    """Single changes to a job that runs on `num_gpus` GPUs, the cheapest first."""
    if isinstance(job.framework, Megatron):
        yield from _switches(job, job.framework)
    else:
        yield from _pytorch_switches(job, job.framework)
    yield from _micro_batches(job)
    yield from _sharding(job)
    yield from _sizes(job, num_gpus)
    yield from _pipeline(job)
    if isinstance(job.framework, Megatron):
        yield from _precision(job)
        yield from _recompute(job, job.framework)
        yield from _offload(job)
    else:
        yield from _pytorch_precision(job)
        yield from _checkpointing(job)
    yield Candidate(
        {"/parallelism/num_gpus": 2 * num_gpus},
        Price.GPUS,
        f"{2 * num_gpus} GPUs instead of {num_gpus}, all of them data-parallel",
    )
    if job.training.seq_length > 1:
        yield Candidate(
            {"/training/seq_length": job.training.seq_length // 2},
            Price.TASK,
            "the model is trained on sequences of half the length",
        )


def _switches(job: Job, framework: Megatron) -> Iterator[Candidate]:
    """What gives nothing up, where it is not on already."""
    training, layout = job.training, job.parallelism
    for path, given, wanted, cost in (
        (
            "/training/loss/cross_entropy",
            training.loss.cross_entropy,
            "te_fused",
            "none to speak of: TransformerEngine's kernel computes the loss in place",
        ),
        (
            "/framework/expandable_segments",
            framework.expandable_segments,
            True,
            "none to speak of; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        (
            "/framework/create_attention_mask_in_dataloader",
            framework.create_attention_mask_in_dataloader,
            False,
            "none: causal attention needs no mask",
        ),
        (
            "/framework/deallocate_pipeline_outputs",
            framework.deallocate_pipeline_outputs,
            True,
            "none: what was sent is freed",
        ),
        (
            "/framework/gradient_accumulation_fusion",
            framework.gradient_accumulation_fusion,
            True,
            "none: a faster kernel",
        ),
        (
            "/training/moe/permute_fusion",
            training.moe.permute_fusion,
            True,
            "none: a faster kernel",
        ),
    ):
        if given != wanted:
            yield Candidate({path: wanted}, Price.NOTHING, cost)
    if layout.tp > 1 and layout.sequence_parallel is False:
        yield Candidate(
            {"/parallelism/sequence_parallel": True},
            Price.NOTHING,
            "none to speak of: as many bytes are exchanged, in two steps",
        )
    if training.attention.backend == "unfused" and framework.transformer_impl != "local":
        yield Candidate(
            {"/training/attention/backend": "auto"}, Price.NOTHING, "none: a faster kernel"
        )


def _pytorch_switches(job: Job, framework: Torchtitan | Transformers) -> Iterator[Candidate]:
    """What gives next to nothing up under PyTorch, where it is not on already."""
    training, layout = job.training, job.parallelism
    fused = isinstance(framework, Transformers) and framework.liger_kernel
    if isinstance(framework, Transformers) and not (fused or framework.compile):
        yield Candidate(
            {"/framework/liger_kernel": True},
            Price.NOTHING,
            "none: faster kernels, of liger-kernel, for norms, SwiGLU and the loss",
        )
    if isinstance(framework, Torchtitan) and not framework.compile:
        yield Candidate({"/framework/compile": True}, Price.NOTHING, "time to compile at the start")
    if training.loss.cross_entropy == "unfused" and not fused and layout.tp == 1:
        yield Candidate(
            {"/training/loss/cross_entropy": "chunked"},
            Price.NOTHING,
            "none to speak of: head and loss run over one part of the sequence after the other",
        )
    if not framework.expandable_segments:
        yield Candidate(
            {"/framework/expandable_segments": True},
            Price.NOTHING,
            "none to speak of; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        )
    if isinstance(framework, Transformers) and not framework.sync_each_micro_batch:
        yield Candidate(
            {"/framework/sync_each_micro_batch": True},
            Price.COMMUNICATION,
            "gradients are reduced after every micro-batch (accelerate: sync_each_batch)",
        )
    if training.optimizer.implementation != "fused" and training.optimizer.name == "adam":
        yield Candidate(
            {"/training/optimizer/implementation": "fused"}, Price.NOTHING, "none: a faster kernel"
        )


def _micro_batches(job: Job) -> Iterator[Candidate]:
    """Smaller micro-batches, and as many more of them where their number is given."""
    size, count = job.training.micro_batch_size, job.training.num_microbatches
    for divisor in dict.fromkeys((2, size)):
        if size % divisor or divisor == 1:
            continue
        values: dict[str, Any] = {"/training/micro_batch_size": size // divisor}
        if count is not None:
            values["/training/num_microbatches"] = count * divisor
        cost = f"smaller matrix products, {divisor} times as many: lower throughput"
        yield Candidate(values, Price.SPEED, cost)


def _sharding(job: Job) -> Iterator[Candidate]:
    """More of the model's states shared out over the data-parallel ranks."""
    layout = job.parallelism
    unsharded = layout.use_distributed_optimizer is False
    strategy = sharding_strategy(job, Findings())
    path = "/parallelism/data_parallel_sharding_strategy"
    # The short form says the same or the opposite, so it goes where the strategy is set.
    short = {"/parallelism/use_distributed_optimizer": None} if unsharded else {}
    costs = {
        "no_shard": "",
        "optim": "none to speak of: all-reduces become reduce-scatters and all-gathers",
        "optim_grads": "gradients are reduced with every micro-batch",
        "optim_grads_params": "weights are gathered in every forward and backward",
    }
    order = list(costs)
    for wanted in order[order.index(strategy) + 1 :]:
        price = Price.NOTHING if wanted == "optim" else Price.COMMUNICATION
        yield Candidate({**short, path: wanted}, price, costs[wanted])
    if layout.data_parallel_replicate_size > 1:
        yield Candidate(
            {"/parallelism/data_parallel_replicate_size": 1},
            Price.COMMUNICATION,
            "one group of data-parallel ranks, which spans more nodes",
        )


NODE = 8
"""GPUs that are linked closely enough for an exchange in every layer: those of the usual node."""


def _sizes(job: Job, num_gpus: int) -> Iterator[Candidate]:
    """Larger parallel groups, on more GPUs only where they do not divide those of the job. Tensor
    parallelism stays within a node.
    """
    layout = job.parallelism
    etp = layout.etp if layout.etp is not None else default_etp(job)
    costs = {
        "tp": "an exchange of activations in every layer",
        "cp": "keys and values are exchanged in every layer",
        "ep": "tokens are exchanged among more ranks",
        "etp": "an exchange of activations in every expert layer",
        "pp": "more of the step is spent filling and draining the pipeline",
    }
    for factor in (2, 4):
        for name, cost in costs.items():
            size = etp if name == "etp" else getattr(layout, name)
            if name in ("tp", "etp") and size * factor > NODE:
                continue
            values = {f"/parallelism/{name}": size * factor}
            if name == "tp" and layout.etp is None and layout.ep > 1:
                values["/parallelism/etp"] = etp
            changed = layout.model_copy(
                update={path.split("/")[2]: n for path, n in values.items()}
            )
            world = smallest_world(changed, changed.etp or default_etp(job))
            if num_gpus % world == 0:
                yield Candidate(values, Price.COMMUNICATION, cost)
                continue
            more = ceil(num_gpus / world) * world
            cost = f"{more} GPUs instead of {num_gpus}; {cost}"
            yield Candidate({**values, "/parallelism/num_gpus": more}, Price.GPUS, cost)


def _pipeline(job: Job) -> Iterator[Candidate]:
    """Without interleaving a rank starts fewer micro-batches before the first returns."""
    layout = job.parallelism
    chunks = (layout.vpp or 1) > 1 or layout.num_layers_per_virtual_pipeline_stage is not None
    if chunks and layout.pipeline_model_parallel_layout is None:
        values = {
            f"/parallelism/{name}": None
            for name in ("vpp", "num_layers_per_virtual_pipeline_stage", "pipeline_schedule")
            if getattr(layout, name) is not None
        }
        cost = "more of the step is spent filling and draining the pipeline"
        yield Candidate(values, Price.SPEED, cost)


def _precision(job: Job) -> Iterator[Candidate]:
    optimizer, precision = job.training.optimizer, job.training.precision
    given = (optimizer.exp_avg_dtype or "fp32", optimizer.exp_avg_sq_dtype or "fp32")
    moments = {
        "/training/optimizer/precision_aware": True,
        "/training/optimizer/exp_avg_dtype": "bf16",
        "/training/optimizer/exp_avg_sq_dtype": "bf16",
    }
    if optimizer.name == "adam" and "fp32" in given:
        yield Candidate(moments, Price.PRECISION, "moments in bf16; needs TransformerEngine's Adam")
    if precision == "bf16" or (isinstance(precision, Precision) and precision.gradients == "fp32"):
        held = precision if isinstance(precision, Precision) else Precision()
        wanted = held.model_dump(exclude_unset=True) | {"gradients": "bf16"}
        yield Candidate(
            {"/training/precision": wanted, "/training/optimizer/precision_aware": True},
            Price.PRECISION,
            "gradients are accumulated and reduced in bf16",
        )


def _pytorch_precision(job: Job) -> Iterator[Candidate]:
    if job.training.optimizer.name == "adam":
        yield Candidate(
            {"/training/optimizer/name": "adamw8bit"},
            Price.PRECISION,
            "moments in 8 bits, by bitsandbytes",
        )
    if job.training.precision in ("autocast-bf16", "bf16"):
        yield Candidate(
            {"/training/precision": "bf16-pure"},
            Price.PRECISION,
            "weights, gradients and moments in bf16 only: small updates are rounded away",
        )


def _checkpointing(job: Job) -> Iterator[Candidate]:
    """Layers that run again in backward, half of them or all; operations where torchtitan runs."""
    given = job.training.recompute
    if given.granularity == "full" and given.every_nth_layer == 1:
        if not job.training.offload_activations:
            yield Candidate(
                {"/training/offload_activations": True},
                Price.TRANSFERS,
                "inputs of the layers go to host memory and back with every micro-batch",
            )
        return
    if isinstance(job.framework, Torchtitan) and given.granularity is None:
        yield Candidate(
            {RECOMPUTE: {"granularity": "selective"}},
            Price.SPEED,
            "cheap operations and every second matrix product are computed twice",
        )
    if given.granularity is None:
        yield Candidate(
            {RECOMPUTE: {"granularity": "full", "every_nth_layer": 2}},
            Price.RECOMPUTATION,
            "every second layer is computed twice",
        )
    yield Candidate(
        {RECOMPUTE: {"granularity": "full"}},
        Price.RECOMPUTATION,
        "the whole forward is computed twice: about a third more computation",
    )


REMADE: dict[RecomputeModule, tuple[Price, str]] = {
    "layernorm": (Price.SPEED, "norms are computed twice: hardly any time"),
    "moe_act": (Price.SPEED, "the experts' activation is computed twice: hardly any time"),
    "mla_up_proj": (Price.SPEED, "the up-projections of latent attention are computed twice"),
    "core_attn": (Price.RECOMPUTATION, "attention is computed twice"),
    "shared_experts": (Price.RECOMPUTATION, "shared experts are computed twice"),
    "mlp": (Price.RECOMPUTATION, "dense MLPs are computed twice"),
    "moe": (Price.RECOMPUTATION, "expert layers, with their exchange of tokens, run twice"),
}
"""What each module costs when it is made again in backward."""


def _recompute(job: Job, framework: Megatron) -> Iterator[Candidate]:
    given = job.training.recompute
    if given.granularity != "full":
        chosen = given.modules or ("core_attn",) if given.granularity == "selective" else ()
        excluded = {*chosen, *_not_remade(job, framework)}
        for module, (price, cost) in REMADE.items():
            if module in excluded:
                continue
            values = {"granularity": "selective", "modules": [*chosen, module]}
            yield Candidate({RECOMPUTE: values}, price, cost)
    if given.granularity != "full" or given.method == "block":
        whole = {"granularity": "full", "method": "uniform", "num_layers": 1}
        cost = "the whole forward is computed twice: about a third more computation"
        yield Candidate({RECOMPUTE: whole}, Price.RECOMPUTATION, cost)


def _not_remade(job: Job, framework: Megatron) -> Iterator[RecomputeModule]:
    """Modules that Megatron refuses to recompute in this job, or that fused kernels remake anyway.

    Source: megatron/core/transformer/transformer_config.py.
    """
    training = job.training
    if training.attention.backend != "unfused" and framework.transformer_impl != "local":
        yield "core_attn"
    if isinstance(training.precision, Precision) and training.precision.fp8_recipe == "delayed":
        yield from ("layernorm", "moe_act")
    if not training.moe.grouped_gemm:
        yield "moe_act"
    if training.moe.shared_expert_overlap:
        yield "shared_experts"
    if {"expert_fc1", "moe_act"} & set(training.offload_modules):
        yield "moe"


AWAY: tuple[OffloadModule, ...] = ("core_attn", "qkv_linear", "expert_fc1", "moe_act")
"""Modules whose inputs can wait in host memory each by itself."""


def _offload(job: Job) -> Iterator[Candidate]:
    """Megatron's optimizer on the host is the precision-aware one."""
    training = job.training
    if training.optimizer.name == "adam" and training.optimizer.cpu_offload_fraction < 1:
        yield Candidate(
            {
                "/training/optimizer/precision_aware": True,
                "/training/optimizer/cpu_offload_fraction": 1.0,
            },
            Price.TRANSFERS,
            "the optimizer steps on the host, over PCIe, with its states in host memory",
        )
    remade = training.recompute.modules or ()
    if training.recompute.granularity == "full" or "moe" in remade:
        return
    for module in AWAY:
        if module not in training.offload_modules:
            yield Candidate(
                {OFFLOAD: [*training.offload_modules, module]},
                Price.TRANSFERS,
                f"what {module} keeps goes to host memory and back with every micro-batch",
            )
