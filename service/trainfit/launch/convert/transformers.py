"""A job -> the arguments of TRL's supervised fine-tuning, which are Trainer's and more.

The arguments are those of TRL 1.9 and transformers 5.23; what has a default there is said. They
name no number of GPUs, which is the launcher's, no card, and nothing of the allocator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from math import ceil
from typing import Any

from trainfit.launch.convert.unsaid import unsaid
from trainfit.launch.transformers.engine import Name, TrainerEngine
from trainfit.launch.transformers.precision import DTYPES, types_of
from trainfit.launch.transformers.step import OPTIMS, TRL_CHUNK
from trainfit.resolve.findings import Findings, RefusedError
from trainfit.resolve.layout import sharding_strategy, smallest_world
from trainfit.resolve.pytorch.precision import base_dtype
from trainfit.resolve.registry import conventions_of
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchFile
from trainfit.specs.optimizers import OPTIMIZERS
from trainfit.specs.peft import Lora
from trainfit.specs.precision import Precision

MODEL = "model"
"""The directory that a config.json of one's own is written to."""

NO_ARGUMENT = unsaid(
    "transformers",
    {
        "/framework/gradient_as_bucket_view": (False,),
        "/framework/loss_parallel": (True,),
        "/parallelism/ep": (1,),
        "/parallelism/etp": (None, 1),
        "/parallelism/microbatch_group_size_per_vp_stage": (None, 1),
        "/parallelism/num_layers_in_first_pipeline_stage": (None,),
        "/parallelism/num_layers_in_last_pipeline_stage": (None,),
        "/parallelism/num_layers_per_virtual_pipeline_stage": (None,),
        "/parallelism/pipeline_model_parallel_layout": (None,),
        "/parallelism/pipeline_schedule": (None, "1f1b"),
        "/parallelism/pp": (1,),
        "/parallelism/vpp": (None, 1),
        "/training/attention/dropout": (None,),
        "/training/attention/repeats_kv": (False,),
        "/training/frozen": ((),),
        "/training/image_tokens": (None,),
        "/training/hidden_dropout": (None,),
        "/training/lengths": (None,),
        "/training/loss/logits_to_keep": (None,),
        "/training/loss/objective": ("next_token",),
        "/training/loss/reference": ("none",),
        "/training/loss/log_probs_by": ("trl-1.15",),
        "/training/loss/chosen_nll": (False,),
        "/training/loss/shifted": ("labels",),
        "/training/moe/fp8_recipe": (None,),
        "/training/moe/imbalance_factor": (1.0,),
        "/training/mtp": (None,),
        "/training/num_frozen_last_layers": (0,),
        "/training/num_frozen_layers": (0,),
        "/training/optimizer/in_backward": (False,),
        "/training/optimizer/momentum": (None, 0.0),
        "/training/recompute/every_nth_layer": (1,),
        "/training/recompute/frozen_layers": (True,),
        "/training/recompute/method": (None, "uniform"),
        "/training/recompute/num_layers": (None, 1),
    },
)
"""Fields that no argument sets, at the values that a run means without one."""

Said = tuple[str, Any]
"""An argument and its value."""


def engine_of(job: Job, findings: Findings) -> TrainerEngine:
    """Who shares states out, as the job resolves it. Raises RefusedError for another framework."""
    if not isinstance(job.framework, Transformers):
        refuse(findings, "/framework/name", f"{job.framework.name} is not transformers")
        raise RefusedError(tuple(findings.found))
    strategy = sharding_strategy(job.parallelism, conventions_of(job), findings)
    named = job.framework.data_parallel_engine
    usual: Name = "ddp" if strategy == "no_shard" else "fsdp2"
    engine = named or usual
    if engine == "ddp" and strategy != "no_shard":
        refuse(findings, "/framework/data_parallel_engine", "DDP shares nothing out")
    return TrainerEngine(engine, strategy != "no_shard", None)


def trainer_arguments(job: Job, engine: TrainerEngine, findings: Findings) -> list[str]:
    """The arguments, with a finding for every field that none of them says."""
    for pointer, usual in NO_ARGUMENT.items():
        value = reduce(getattr, pointer.strip("/").split("/"), job)
        if value not in usual:
            refuse(findings, pointer, f"no argument of TRL says {value!r}")
    assert isinstance(job.framework, Transformers)
    shards = engine.sharded and engine.name in ("fsdp1", "fsdp2")
    if not (job.framework.reshard_after_forward or shards):
        refuse(findings, "/framework/reshard_after_forward", "goes with what FSDP shards")
    said = [
        *_model(job, findings),
        *_batch(job, findings),
        *_precision(job, engine, findings),
        *_optimizer(job, findings),
        *_recompute(job, findings),
        *_kernels(job, findings),
        *_loss(job, findings),
        *_adapters(job, engine, findings),
    ]
    return [word for name, value in said for word in (f"--{name}", *_words(value))]


def model_files(job: Job) -> list[LaunchFile]:
    """The config.json of a model that has no name on the Hub."""
    if job.model.hf_config is None:
        return []
    text = json.dumps(job.model.hf_config, indent=2) + "\n"
    return [LaunchFile(path=f"{MODEL}/config.json", content=text)]


def refuse(findings: Findings, pointer: str, message: str) -> None:
    findings.add(pointer, "not_expressible", message)


def _words(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return [json.dumps(value) if isinstance(value, dict) else str(value)]


def _model(job: Job, findings: Findings) -> Iterator[Said]:
    model = job.model
    if model.spec is not None:
        message = "transformers builds no model from Megatron's argument names"
        refuse(findings, "/model/spec", message)
    yield "model_name_or_path", f"./{MODEL}" if model.hf_id is None else model.hf_id
    if model.revision is not None:
        yield "model_revision", model.revision


def _batch(job: Job, findings: Findings) -> Iterator[Said]:
    training, given = job.training, job.parallelism
    count = training.num_microbatches
    if training.global_batch_size is not None:
        world = given.num_gpus or smallest_world(given, given.etp or 1)
        ranks = max(1, world // (given.tp * given.cp))
        steps, rest = divmod(training.global_batch_size, training.micro_batch_size * ranks)
        if rest or count not in (None, steps):
            message = "the samples of a step are no whole number of micro-batches"
            refuse(findings, "/training/global_batch_size", message)
        count = steps
    yield "per_device_train_batch_size", training.micro_batch_size
    yield "gradient_accumulation_steps", count or 1
    yield "max_length", training.seq_length


def _precision(job: Job, engine: TrainerEngine, findings: Findings) -> Iterator[Said]:
    """The mixed precision and the weights of which the job's data types are made."""
    stated = job.training.precision
    wanted: Any = stated
    if isinstance(stated, Precision):
        names = ("params", "compute", "gradients", "main_params")
        wanted = {name: getattr(stated, name) for name in names}
        if stated.fp8_recipe is not None or stated.fp8_param_gather:
            refuse(findings, "/training/precision", "fp8 under accelerate is not modelled")
    elif stated == "bf16" and not engine.sharded and engine.name != "deepspeed":
        wanted = "autocast-bf16"
    if engine.name == "deepspeed":
        mixed = next((each for each, made in DEEPSPEEDS.items() if made == wanted), None)
        found = None if mixed is None else (mixed, "fp32")
    else:
        peft = job.training.peft
        base = None if peft is None else base_dtype(peft, autocast=not engine.sharded)
        found = next(
            (
                (mixed, weights)
                for mixed, weights in product(("bf16", "fp16", "no"), ("fp32", "bf16", "fp16"))
                if types_of(mixed, weights, engine, adapters=peft is not None)
                in ((wanted, base), (wanted, None))
            ),
            None,
        )
    if found is None:
        message = f"no arguments make {stated if isinstance(stated, str) else wanted} here"
        refuse(findings, "/training/precision", message)
        return
    mixed, weights = found
    yield "bf16", mixed == "bf16"
    yield "fp16", mixed == "fp16"
    yield "dtype", next(name for name, each in DTYPES.items() if each == weights)


DEEPSPEEDS: Mapping[str, Any] = {
    "bf16": "bf16",
    "no": "fp32",
    "fp16": {"params": "fp16", "compute": "fp16", "gradients": "fp16", "main_params": "fp32"},
}
"""What DeepSpeed's sections make of a run."""


def _optimizer(job: Job, findings: Findings) -> Iterator[Said]:
    given = job.training.optimizer
    moments = given.exp_avg_dtype
    wanted = (given.name, given.implementation, given.paged, moments)
    second = moments if OPTIMIZERS[given.name].moments == 2 else None
    same = given.exp_avg_sq_dtype == second
    name = next((word for word, choice in OPTIMS.items() if choice == wanted), None)
    if name is None or not same:
        refuse(findings, "/training/optimizer", "no optimizer of transformers is this one")
    else:
        yield "optim", name


def _recompute(job: Job, findings: Findings) -> Iterator[Said]:
    granularity = job.training.recompute.granularity
    if granularity == "selective":
        message = "transformers recomputes whole layers only"
        refuse(findings, "/training/recompute/granularity", message)
    yield "gradient_checkpointing", granularity == "full"
    if job.training.recompute.use_reentrant:
        yield "gradient_checkpointing_kwargs", '{"use_reentrant": true}'
    if job.training.offload_activations:
        yield "activation_offloading", True


KERNELS = {"flash": "flash_attention_2", "sdpa": "sdpa", "eager": "eager"}


def _kernels(job: Job, findings: Findings) -> Iterator[Said]:
    assert isinstance(job.framework, Transformers)
    backend = job.training.attention.backend
    if backend in KERNELS:
        yield "attn_implementation", KERNELS[backend]
    elif backend != "auto":
        message = f"transformers has no attention {backend}"
        refuse(findings, "/training/attention/backend", message)
    if job.framework.compile:
        yield "torch_compile", True
    if job.framework.liger_kernel:
        yield "use_liger_kernel", True
    if job.framework.sync_each_micro_batch:
        yield "accelerator_config", {"gradient_accumulation_kwargs": {"sync_each_batch": True}}


def _loss(job: Job, findings: Findings) -> Iterator[Said]:
    loss, training = job.training.loss, job.training
    chunks = ceil(training.micro_batch_size * training.seq_length / TRL_CHUNK)
    if loss.cross_entropy == "unfused":
        yield "loss_type", "nll"
    elif loss.cross_entropy == "chunked_nll" and loss.num_chunks == chunks:
        yield "loss_type", "chunked_nll"
    elif loss.cross_entropy == "chunked_nll":
        message = f"TRL computes the loss of {TRL_CHUNK} tokens at once: {chunks} chunks here"
        refuse(findings, "/training/loss/num_chunks", message)
    else:
        message = f"no argument of TRL says {loss.cross_entropy}"
        refuse(findings, "/training/loss/cross_entropy", message)


def _adapters(job: Job, engine: TrainerEngine, findings: Findings) -> Iterator[Said]:
    peft = job.training.peft
    if peft is None:
        return
    if not isinstance(peft, Lora):
        refuse(findings, "/training/peft/method", f"no argument of TRL says {peft.method}")
        return
    deepspeed = engine.name == "deepspeed" and job.training.precision == "bf16"
    usual = "bf16" if deepspeed or peft.quantization is not None else "fp32"
    if (peft.adapter_dtype or "fp32") != usual:
        message = f"adapters are in {usual} here"
        refuse(findings, "/training/peft/adapter_dtype", message)
    yield "use_peft", True
    yield "lora_r", peft.r
    yield "lora_dropout", peft.dropout
    yield "use_dora", peft.decomposed
    if not peft.target_modules:
        refuse(findings, "/training/peft/target_modules", "name a module")
    yield "lora_target_modules", peft.target_modules
    if peft.fused:
        refuse(findings, "/training/peft/fused", "TRL has no such kernels; axolotl has")
    if peft.quantize_experts:
        message = "transformers leaves stacked experts as they are; axolotl quantises them"
        refuse(findings, "/training/peft/quantize_experts", message)
    if peft.modules_to_save:
        yield "lora_modules_to_save", peft.modules_to_save
    if peft.quantization == "int8":
        yield "load_in_8bit", True
    if peft.quantization == "nf4":
        yield "load_in_4bit", True
        yield "bnb_4bit_quant_storage", "bfloat16"
    if peft.double_quantization:
        yield "use_bnb_nested_quant", True
    if peft.double_quantization and peft.quantization != "nf4":
        message = "the scales of 4 bits can be quantised only"
        refuse(findings, "/training/peft/double_quantization", message)
