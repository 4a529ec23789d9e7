"""A job -> DeepSpeed's or accelerate's config and TRL's arguments -> the same job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.launch.launches import launch_of, read
from trainfit.launch.convert.accelerate import accelerate_arguments
from trainfit.launch.convert.deepspeed import deepspeed_arguments
from trainfit.launch.convert.targets import write
from trainfit.launch.convert.transformers import NO_ARGUMENT
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.framework import Transformers
from trainfit.specs.job import Job
from trainfit.specs.launch import LaunchTarget
from trainfit.specs.parallelism import ShardingStrategy

Part = dict[str, Any]
GPUS = 8
HALF = {"params": "fp16", "compute": "fp16", "gradients": "fp16", "main_params": "fp32"}


def job_of(**parts: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "Qwen/Qwen3-8B"},
            "parallelism": {"num_gpus": GPUS},
            "framework": {"name": "transformers"},
        }
        | parts
    )


def plan(job: Job) -> Plan:
    """The plan, without where its values came from."""
    found = plan_of(job)
    assert isinstance(job.framework, Transformers)
    return replace(found, defaults=(), remarks=(), framework=job.framework)


def started(to: LaunchTarget) -> tuple[list[str], Part]:
    if to == "deepspeed":
        return ["deepspeed", "--num_gpus", str(GPUS), "sft.py"], {}
    return ["accelerate", "launch", "--config_file", "accelerate.yaml", "sft.py"], {}


def read_back(job: Job, to: LaunchTarget) -> Job:
    written = write(job, to)
    start, _ = started(to)
    files = {file.path: file.content for file in written.files}
    found = read(launch_of(files, [*start, *written.arguments], env=written.environment))
    assert not found.unsupported
    return Job.model_validate(found.job)


def same(job: Job, back: Job) -> bool:
    """Whether all that is priced is the same; the framework's fields are compared as resolved."""
    first, second = plan(job), plan(back)
    return replace(first, framework=second.framework, source=second.source) == second


FP32_MOMENTS = {"exp_avg_dtype": "fp32", "exp_avg_sq_dtype": "fp32"}
optimizers = st.sampled_from(
    [
        {"name": "adam"},
        {"name": "adam", "implementation": "foreach"},
        {"name": "adam", "implementation": "for-loop"},
        {"name": "adam", "paged": True} | FP32_MOMENTS,
        {"name": "adamw8bit"},
        {"name": "adamw8bit", "paged": True},
        {"name": "lion", "exp_avg_dtype": "fp32"},
        {"name": "adafactor", "implementation": "for-loop"},
        {"name": "sgd", "implementation": "foreach"},
        {"name": "muon"},
    ]
)
ENGINES = ("ddp", "fsdp1", "fsdp2", "deepspeed")
STRATEGIES: dict[str, tuple[ShardingStrategy, ...]] = {
    "ddp": ("no_shard",),
    "fsdp1": ("no_shard", "optim_grads_params"),
    "fsdp2": ("optim_grads_params", "optim_grads"),
    "deepspeed": get_args(ShardingStrategy),
}
PRECISIONS: dict[str, tuple[Any, ...]] = {
    "ddp": ("bf16", "bf16-pure", "fp32", "autocast-bf16"),
    "fsdp1": ("bf16", "bf16-pure", "fp32"),
    "fsdp2": ("bf16", "bf16-pure", "fp32"),
    "deepspeed": ("bf16", "fp32", HALF),
}
adapters = st.fixed_dictionaries(
    {"method": st.just("lora")},
    optional={
        "r": st.sampled_from([8, 64]),
        "dropout": st.sampled_from([0.0, 0.05]),
        "target_modules": st.sampled_from(["all-linear", ["q_proj"], ["q_proj", "v_proj"]]),
        "modules_to_save": st.sampled_from([[], ["lm_head"]]),
        "quantization": st.sampled_from(["nf4", "int8", None]),
        "double_quantization": st.booleans(),
        "quantize_experts": st.sampled_from([False, False, True]),
        "fused": st.sampled_from([[], [], ["qkv", "mlp"]]),
        "adapter_dtype": st.sampled_from(["bf16", "fp32", None]),
        "base_dtype": st.sampled_from(["bf16", "fp32", None]),
    },
)
trainings = st.fixed_dictionaries(
    {"seq_length": st.sampled_from([256, 1000, 4096])},
    optional={
        "micro_batch_size": st.sampled_from([1, 3]),
        "num_microbatches": st.sampled_from([1, 4]),
        "optimizer": optimizers,
        "recompute": st.sampled_from([{}, {"granularity": "full"}]),
        "attention": st.sampled_from([{}, {"backend": "flash"}, {"backend": "eager"}]),
        "offload_activations": st.booleans(),
        "loss": st.sampled_from([{}, {"cross_entropy": "chunked_nll", "num_chunks": 16}]),
        "peft": adapters,
    },
)
sizes = st.one_of(st.just("auto"), st.integers(1, 10**9))
buffers = st.fixed_dictionaries(
    {},
    optional={
        "reduce_bucket_size": sizes,
        "stage3_prefetch_bucket_size": sizes,
        "stage3_max_live_parameters": st.integers(0, 10**9),
        "overlap_comm": st.booleans(),
        "contiguous_gradients": st.booleans(),
    },
)
frameworks = st.fixed_dictionaries(
    {"name": st.just("transformers")},
    optional={
        "reshard_after_forward": st.booleans(),
        "sync_each_micro_batch": st.booleans(),
        "compile": st.booleans(),
        "liger_kernel": st.booleans(),
        "expandable_segments": st.booleans(),
        "deepspeed": buffers,
    },
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Jobs of every engine, most of which can be said."""
    engine = draw(st.sampled_from(ENGINES))
    training = draw(trainings) | {"precision": draw(st.sampled_from(PRECISIONS[engine]))}
    framework = draw(frameworks) | {"data_parallel_engine": engine}
    if engine in ("ddp", "deepspeed"):
        framework["reshard_after_forward"] = True
    else:
        framework["offload_params"] = draw(st.booleans())
    sizes = st.sampled_from([1, 2]) if engine == "fsdp2" else st.just(1)
    layout = {
        "num_gpus": GPUS,
        "data_parallel_sharding_strategy": draw(st.sampled_from(STRATEGIES[engine])),
        "data_parallel_replicate_size": draw(sizes),
        "tp": draw(st.sampled_from([1, 2]) if engine == "deepspeed" else sizes),
    }
    return job_of(training=training, framework=framework, parallelism=layout)


@given(jobs(), st.booleans())
@settings(max_examples=150)
def test_what_can_be_said_is_read_back(job: Job, alone: bool) -> None:
    assert isinstance(job.framework, Transformers)
    engine = job.framework.data_parallel_engine
    to: LaunchTarget = "deepspeed" if alone and engine == "deepspeed" else "accelerate"
    try:
        plan_of(job)
        back = read_back(job, to)
    except RefusedError:
        assume(False)
    assert same(job, back)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("peft", [None, {"method": "lora", "quantization": "nf4"}])
def test_every_engine_can_be_said(engine: str, peft: Part | None) -> None:
    training: Part = {"seq_length": 2048, "recompute": {"granularity": "full"}}
    training["optimizer"] = {"name": "adamw8bit", "paged": True}
    if peft is not None:
        training |= {"peft": peft | {"adapter_dtype": "bf16"}}
        training["precision"] = "bf16" if engine == "deepspeed" else "bf16-pure"
    strategy = "no_shard" if engine == "ddp" else "optim_grads_params"
    job = job_of(
        training=training,
        framework={"name": "transformers", "data_parallel_engine": engine},
        parallelism={"num_gpus": GPUS, "data_parallel_sharding_strategy": strategy},
    )
    assert same(job, read_back(job, "accelerate"))
    if engine == "deepspeed":
        assert same(job, read_back(job, "deepspeed"))


def test_deepspeeds_tensor_parallel_ranks_can_be_said() -> None:
    job = job_of(
        framework={"name": "transformers", "data_parallel_engine": "deepspeed"},
        parallelism={"num_gpus": GPUS, "tp": 4, "data_parallel_sharding_strategy": "optim"},
    )
    assert same(job, read_back(job, "deepspeed"))
    assert same(job, read_back(job, "accelerate"))


def test_a_config_of_ones_own_goes_along() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 1000,
    }
    job = job_of(model={"hf_config": config})
    assert read_back(job, "accelerate").model == job.model


@pytest.mark.parametrize("pointer", NO_ARGUMENT)
def test_a_field_without_an_argument_is_refused_by_name(pointer: str) -> None:
    job = job_of()
    *parents, name = pointer.strip("/").split("/")
    part: Any = job
    for parent in parents:
        part = getattr(part, parent)
    changed = part.model_copy(update={name: "another value"})
    for parent in reversed(parents):
        owner: Any = job
        for above in parents[: parents.index(parent)]:
            owner = getattr(owner, above)
        changed = owner.model_copy(update={parent: changed})
    with pytest.raises(RefusedError) as refused:
        accelerate_arguments(changed)
    assert pointer in {each.pointer for each in refused.value.findings}


@pytest.mark.parametrize("say", [accelerate_arguments, deepspeed_arguments])
def test_another_framework_is_refused(say: Any) -> None:
    with pytest.raises(RefusedError) as refused:
        say(job_of(framework={"name": "torchtitan"}))
    assert refused.value.findings[0].pointer == "/framework/name"
