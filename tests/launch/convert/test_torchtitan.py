"""A job -> torchtitan's keys -> the same job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.launch.launches import launch_of, read
from trainfit.launch.convert.torchtitan import (
    NO_KEY,
    RELEASE,
    torchtitan_options,
    torchtitan_settings,
    torchtitan_toml,
)
from trainfit.launch.torchtitan.flavors import FLAVORS, flavor_of
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.specs.training import Training

Part = dict[str, Any]
SPLIT_BY_FILE = {"pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage"}


FRAMEWORK: Part = {"name": "torchtitan", "expandable_segments": True}
"""As torchtitan's script has segments, which starts each launch that is read back."""


def job_of(**parts: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
            "parallelism": {"num_gpus": 16},
            "framework": FRAMEWORK,
        }
        | parts
    )


def plan(job: Job) -> Plan:
    """The plan, without where its values came from."""
    return replace(plan_of(job), defaults=(), remarks=())


def started(job: Job) -> dict[str, str]:
    return {"NGPU": str(plan_of(job).layout.num_gpus)}


def read_back(job: Job, *, by_file: bool) -> Job:
    files = {"x.toml": torchtitan_toml(job)} if by_file else {}
    words = ["--job.config_file", "x.toml"] if by_file else torchtitan_options(job)
    found = read(launch_of(files, ["./run_train.sh", *words], env=started(job)))
    assert not found.unsupported
    return Job.model_validate(found.job)


FLAVORS_OF_RELEASE = [
    found
    for name, flavors in FLAVORS.items()
    for flavor in flavors
    if (found := flavor_of(name, flavor, RELEASE)) is not None
]
FLAG = st.booleans()
PIPELINES: st.SearchStrategy[Part] = st.sampled_from(
    (
        {},
        {"pp": 2},
        {"pp": 2, "pipeline_schedule": "gpipe"},
        {"pp": 2, "vpp": 2},
        {"pp": 2, "vpp": 3},
        {"pp": 2, "vpp": 2, "pipeline_schedule": "looped-bfs"},
        {"pp": 2, "vpp": 2, "pipeline_schedule": "interleaved-zb"},
        {"pp": 2, "pipeline_schedule": "zb-v"},
        {"pp": 2, "pipeline_schedule": "dualpipe-v"},
        {"pp": 2, "num_layers_in_first_pipeline_stage": 2},
    )
)


@st.composite
def layouts(draw: st.DrawFn, experts: bool) -> Part:
    """Layouts that torchtitan runs, but for a few that it does not."""
    pipeline = draw(PIPELINES)
    tp, cp = draw(st.sampled_from((1, 2))), draw(st.sampled_from((1, 2)))
    ep = draw(st.sampled_from((1, 2))) if experts else 1
    dp = draw(st.sampled_from((1, 2, 8)))
    alone = tp * cp * ep * pipeline.get("pp", 1) == 1
    layout = pipeline | {"tp": tp, "cp": cp, "ep": ep}
    layout["num_gpus"] = dp * tp * cp * pipeline.get("pp", 1)
    if experts:
        layout["etp"] = draw(st.sampled_from((1, tp) if ep > 1 else (None, tp)))
    if cp > 1:
        layout["cp_comm_type"] = draw(st.sampled_from(("p2p", "all_gather")))
    if alone and draw(FLAG):
        return layout | {"data_parallel_sharding_strategy": "no_shard"}
    layout["data_parallel_replicate_size"] = draw(st.sampled_from((1, 2))) if dp > 1 else 1
    return layout


PRECISIONS = st.sampled_from(
    (
        "bf16",
        "fp32",
        "autocast-bf16",
        {"params": "bf16", "compute": "bf16"},
        {"params": "fp32", "compute": "bf16", "fp8_recipe": "rowwise"},
        {"params": "fp32", "compute": "bf16", "fp8_recipe": "tensorwise"},
        {"params": "fp32", "compute": "bf16", "fp8_recipe": "mxfp8"},
    )
)
RECOMPUTES = st.sampled_from(
    (
        {},
        {"granularity": "full"},
        {"granularity": "full", "method": "uniform", "num_layers": 1},
        {"granularity": "full", "every_nth_layer": 3},
        {"granularity": "selective"},
    )
)
TRAININGS: st.SearchStrategy[Part] = st.fixed_dictionaries(
    {
        "micro_batch_size": st.sampled_from((1, 2)),
        "num_microbatches": st.sampled_from((4, 8)),
        "seq_length": st.sampled_from((2048, 8192)),
        "precision": PRECISIONS,
        "recompute": RECOMPUTES,
        "optimizer": st.fixed_dictionaries(
            {
                "implementation": st.sampled_from(("fused", "foreach", "for-loop")),
                "in_backward": FLAG,
            }
        ),
    }
)
FRAMEWORKS = st.fixed_dictionaries(
    {
        **{name: st.just(value) for name, value in FRAMEWORK.items()},
        "compile": FLAG,
        "loss_parallel": FLAG,
        "fsdp_reshard_after_forward": st.sampled_from(("default", "always", "never")),
    }
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    flavor = draw(st.sampled_from(FLAVORS_OF_RELEASE))
    training = draw(TRAININGS)
    if training["optimizer"]["in_backward"]:
        training["num_microbatches"] = 1
    return Job.model_validate(
        {
            "model": flavor.model(RELEASE),
            "parallelism": draw(layouts(flavor.experts)),
            "training": training,
            "framework": draw(FRAMEWORKS),
        }
    )


@settings(max_examples=300)
@given(job=jobs(), by_file=FLAG)
def test_what_can_be_said_is_read_back(job: Job, by_file: bool) -> None:
    try:
        expected = plan(job)
        torchtitan_settings(job)
    except RefusedError:
        assume(False)
    try:
        again = read_back(job, by_file=by_file)
    except RefusedError:
        assert not by_file
        assert SPLIT_BY_FILE & job.parallelism.model_fields_set or job.parallelism.vpp == 3
        return
    assert plan(again) == expected


def test_a_split_of_ones_own_goes_to_a_file() -> None:
    job = job_of(
        parallelism={
            "num_gpus": 16,
            "pp": 4,
            "pipeline_model_parallel_layout": "Et*7|t*9|t*9|t*7L",
        },
        training={"num_microbatches": 8},
    )
    with pytest.raises(RefusedError, match="write it to a file"):
        torchtitan_options(job)
    assert plan(read_back(job, by_file=True)) == plan(job)


def test_options_are_written_as_torchtitan_reads_them() -> None:
    words = torchtitan_options(job_of(training={"recompute": {"granularity": "full"}}))
    assert words[:2] == ["--model.name=llama3", "--model.flavor=8B"]
    assert "--parallelism.data_parallel_shard_degree=16" in words
    assert "--activation_checkpoint.mode=full" in words
    assert "--compile.no-enable" in words


REFUSED: list[tuple[Part, str]] = [
    ({"framework": {"name": "megatron"}}, "/framework/name"),
    ({"model": {"hf_id": "Qwen/Qwen2.5-7B"}}, "/model"),
    ({"model": {"hf_id": "meta-llama/Llama-3.1-8B", "revision": "x"}}, "/model"),
    ({"parallelism": {"data_parallel_sharding_strategy": "optim"}}, "/parallelism"),
    ({"parallelism": {"num_gpus": 1}}, "/parallelism"),
    ({"parallelism": {"num_gpus": 16, "tp": 2, "sequence_parallel": False}}, "/parallelism"),
    ({"parallelism": {"num_gpus": 16, "tp": 4, "etp": 2}}, "/parallelism/etp"),
    ({"parallelism": {"num_gpus": 16, "pp": 2}}, "/training/num_microbatches"),
    ({"parallelism": {"num_gpus": 16, "cp": 2, "cp_comm_type": "a2a"}}, "/parallelism"),
    (
        {"parallelism": {"num_gpus": 16, "tp": 2, "data_parallel_sharding_strategy": "no_shard"}},
        "/parallelism/data_parallel_sharding_strategy",
    ),
    ({"training": {"precision": "bf16-pure"}}, "/training/precision"),
    ({"training": {"precision": {"main_params": "bf16"}}}, "/training/precision"),
    (
        {"training": {"recompute": {"granularity": "selective", "every_nth_layer": 2}}},
        "/training/recompute/every_nth_layer",
    ),
    ({"training": {"global_batch_size": 17}}, "/training/global_batch_size"),
]


@pytest.mark.parametrize(("parts", "pointer"), REFUSED)
def test_what_torchtitan_cannot_say_is_refused_by_name(parts: Part, pointer: str) -> None:
    with pytest.raises(RefusedError) as refused:
        torchtitan_settings(job_of(**parts))
    codes = {finding.code for finding in refused.value.findings}
    assert codes == {"not_expressible"}
    assert any(finding.pointer.startswith(pointer) for finding in refused.value.findings)


OTHER: dict[str, Any] = {
    "image_tokens": 8,
    "lengths": {},
    "attention/backend": "eager",
    "attention/dropout": 0.1,
    "attention/repeats_kv": True,
    "frozen": ["embed_tokens"],
    "hidden_dropout": 0.1,
    "loss/cross_entropy": "chunked",
    "loss/logits_to_keep": 8,
    "loss/num_chunks": 4,
    "loss/chosen_nll": True,
    "loss/entropy": "whole",
    "loss/scored_beside_optimizer": False,
    "loss/scored_tokens": 8192,
    "loss/log_probs_by": "trl-0.9",
    "loss/objective": "reward",
    "loss/reference": "copy",
    "loss/shifted": "logits",
    "moe/deepep_num_sms": 24,
    "moe/expert_capacity_factor": 1.5,
    "moe/expert_rank_capacity_factor": 1.5,
    "moe/flex_dispatcher_backend": "hybridep",
    "moe/grouped_gemm": False,
    "moe/imbalance_factor": 2.0,
    "moe/pad_expert_input_to_capacity": True,
    "moe/paged_stash": True,
    "moe/paged_stash_buffer_size_factor_cuda": 1.5,
    "moe/permute_fusion": False,
    "moe/router_dtype": "fp32",
    "moe/router_force_load_balancing": True,
    "moe/router_padding_for_quantization": True,
    "moe/shared_expert_overlap": True,
    "moe/token_dispatcher_type": "allgather",
    "mtp": {"num_layers": 1},
    "num_frozen_last_layers": 1,
    "num_frozen_layers": 1,
    "offload_activations": True,
    "offload_modules": ["core_attn"],
    "moe/fp8_recipe": "mxfp8",
    "optimizer/cpu_offload_fraction": 0.5,
    "optimizer/embedding_moments_in_fp32": True,
    "optimizer/exp_avg_dtype": "bf16",
    "optimizer/exp_avg_sq_dtype": "bf16",
    "optimizer/momentum": 0.9,
    "optimizer/muon_nesterov": True,
    "optimizer/muon_tp_mode": "duplicated",
    "optimizer/name": "sgd",
    "optimizer/paged": True,
    "optimizer/precision_aware": True,
    "peft": {"method": "lora"},
    "recompute/frozen_layers": False,
    "recompute/distribute_saved_activations": True,
    "recompute/method": "block",
    "recompute/modules": ["mlp"],
    "recompute/num_layers": 2,
    "recompute/use_reentrant": True,
}
SAID = {
    "micro_batch_size",
    "global_batch_size",
    "num_microbatches",
    "seq_length",
    "precision",
    "optimizer/implementation",
    "optimizer/in_backward",
    "recompute/granularity",
    "recompute/every_nth_layer",
}
"""Fields of a step that keys say."""


@pytest.mark.parametrize("field", OTHER)
def test_a_field_without_a_key_is_refused_at_another_value(field: str) -> None:
    training: Part = {}
    part, _, name = field.rpartition("/")
    (training.setdefault(part, {}) if part else training)[name] = OTHER[field]
    with pytest.raises(RefusedError) as refused:
        torchtitan_settings(job_of(training=training))
    assert f"/training/{field}" in {finding.pointer for finding in refused.value.findings}


def test_every_field_of_a_step_is_said_or_refused() -> None:
    fields = set()
    for name, field in Training.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        fields |= {f"{name}/{each}" for each in inner} if inner and name != "peft" else {name}
    assert fields == SAID | OTHER.keys()
    assert {
        pointer.removeprefix("/training/") for pointer in NO_KEY if "/training/" in pointer
    } == (OTHER.keys() - {"mtp"})
