"""A job -> Megatron-LM's arguments -> the same job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfit.launch.convert.megatron import megatron_arguments
from trainfit.launch.read import read_launch
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

SPEC: dict[str, Any] = {
    "num_layers": 8,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}


def job_of(**parts: Any) -> Job:
    return Job.model_validate(
        {
            "model": {"spec": SPEC},
            "parallelism": {"num_gpus": 64},
            "training": {"global_batch_size": 512},
        }
        | parts
    )


def there_and_back(job: Job) -> Job:
    num_gpus = {"parallelism": {"num_gpus": job.parallelism.num_gpus}}
    launch = Launch(argv=("pretrain_gpt.py", *megatron_arguments(job)), overrides=num_gpus)
    reading = read_launch(launch)
    assert not reading.launch.account.unsupported
    return Job.model_validate(reading.job)


def maybe(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, *values))


FLAG = st.booleans()
EXPERTS = st.fixed_dictionaries(
    {
        "num_moe_experts": st.sampled_from((4, 8)),
        "moe_router_topk": st.sampled_from((1, 2, 4)),
        "moe_ffn_hidden_size": maybe(256),
        "moe_shared_expert_intermediate_size": maybe(512),
        "moe_layer_freq": st.one_of(
            st.sampled_from((1, 2)), st.lists(st.integers(0, 1), min_size=8, max_size=8)
        ),
    }
)
LATENT = st.fixed_dictionaries(
    {
        "multi_latent_attention": st.just(True),
        "q_lora_rank": maybe(128),
        "kv_lora_rank": st.sampled_from((32, 64)),
        "qk_head_dim": st.sampled_from((64, 128)),
    }
)
SPECS = st.builds(
    lambda base, experts, latent, activation: SPEC | base | experts | latent | activation,
    st.fixed_dictionaries(
        {
            "ffn_hidden_size": maybe(1024),
            "normalization": st.sampled_from(("LayerNorm", "RMSNorm")),
            "add_bias_linear": FLAG,
            "add_qkv_bias": FLAG,
            "qk_layernorm": FLAG,
            "position_embedding_type": st.sampled_from(("rope", "none", "learned_absolute")),
            "untie_embeddings_and_output_weights": FLAG,
            "mtp_num_layers": maybe(1),
        }
    ),
    st.one_of(st.just({}), EXPERTS),
    st.one_of(st.just({}), LATENT, st.just({"num_query_groups": 4}), st.just({"kv_channels": 128})),
    st.sampled_from(
        (
            {},
            {"swiglu": True},
            {"activation_func": "swiglu"},
            {"activation_func": "silu", "gated_linear_unit": True},
            {"activation_func": "geglu"},
            {"activation_func": "squared_relu"},
        )
    ),
)
LAYOUTS = st.fixed_dictionaries(
    {
        "num_gpus": st.just(64),
        "tp": st.sampled_from((1, 2, 4)),
        "cp": st.sampled_from((1, 2)),
        "sequence_parallel": maybe(True, False),
    }
).flatmap(
    lambda layout: st.sampled_from(
        (
            layout,
            layout | {"pp": 2},
            layout | {"pp": 4, "vpp": 2},
            layout | {"pp": 2, "num_layers_per_virtual_pipeline_stage": 2},
            layout | {"pp": 2, "num_layers_in_first_pipeline_stage": 3},
            layout | {"pp": 4, "pipeline_model_parallel_layout": "Et|tttt|tt|tL"},
            layout | {"cp_comm_type": "a2a"},
            layout | {"data_parallel_sharding_strategy": "no_shard"},
            layout | {"data_parallel_sharding_strategy": "optim_grads_params"},
            layout | {"use_distributed_optimizer": False},
        )
    )
)
PRECISIONS = st.sampled_from(
    (
        "bf16",
        "fp16",
        "fp32",
        "fp8",
        {"gradients": "bf16"},
        {"params": "fp16", "compute": "fp16"},
        {"fp8_recipe": "delayed", "fp8_param_gather": True},
        {"fp8_recipe": "blockwise", "gradients": "bf16"},
        {"fp8_recipe": "mxfp8", "num_layers_at_end_in_bf16": 2},
        {"params": "fp32", "compute": "fp32", "fp8_recipe": "tensorwise"},
        {"main_params": "fp16"},
    )
)
RECOMPUTES = st.sampled_from(
    (
        {},
        {"granularity": "full", "method": "uniform", "num_layers": 1},
        {"granularity": "full", "method": "block", "num_layers": 2},
        {"granularity": "selective"},
        {"granularity": "selective", "modules": ["core_attn", "mlp"]},
    )
)
TRAININGS = st.fixed_dictionaries(
    {
        "micro_batch_size": st.sampled_from((1, 2)),
        "seq_length": st.sampled_from((1024, 4096)),
        "precision": PRECISIONS,
        "optimizer": st.fixed_dictionaries(
            {
                "name": st.sampled_from(("adam", "sgd", "lion", "muon")),
                "precision_aware": FLAG,
                "exp_avg_dtype": maybe("bf16", "fp16"),
                "cpu_offload_fraction": st.sampled_from((0.0, 0.5, 1.0)),
                "muon_nesterov": FLAG,
                "muon_tp_mode": st.sampled_from(("blockwise", "duplicated", "distributed")),
            }
        ),
        "recompute": RECOMPUTES,
        "attention": st.fixed_dictionaries(
            {
                "backend": st.sampled_from(("auto", "flash", "fused", "unfused")),
                "dropout": maybe(0.0, 0.1),
            }
        ),
        "hidden_dropout": maybe(0.0, 0.1),
        "loss": st.sampled_from(
            ({}, {"cross_entropy": "native_fused"}, {"cross_entropy": "te_fused"})
        ),
        "moe": st.fixed_dictionaries(
            {
                "token_dispatcher_type": st.sampled_from(("alltoall", "allgather")),
                "grouped_gemm": FLAG,
                "permute_fusion": FLAG,
                "router_dtype": maybe("fp32"),
                "expert_capacity_factor": maybe(1.5),
            }
        ),
        "offload_modules": st.sampled_from(([], ["core_attn"], ["moe_act", "expert_fc1"])),
    }
)
BATCHES = st.sampled_from(({"global_batch_size": 512}, {"num_microbatches": 8}))
FRAMEWORKS = st.fixed_dictionaries(
    {
        "name": st.just("megatron"),
        "transformer_impl": st.sampled_from(("transformer_engine", "local")),
        "make_vocab_size_divisible_by": st.sampled_from((64, 128)),
        "gradient_accumulation_fusion": FLAG,
        "overlap_grad_reduce": FLAG,
        "overlap_param_gather": FLAG,
        "pad_buckets_for_high_nccl_busbw": FLAG,
        "defer_embedding_wgrad_compute": FLAG,
        "create_attention_mask_in_dataloader": FLAG,
        "deterministic_mode": FLAG,
        "bias_activation_fusion": FLAG,
        "fsdp_double_buffer": FLAG,
        "nccl_ub": FLAG,
    }
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Megatron jobs over the fields that its arguments can say; routing where there are experts."""
    spec, training = draw(SPECS), draw(TRAININGS) | draw(BATCHES)
    if "num_moe_experts" not in spec:
        del training["moe"]
    parts = {"model": {"spec": spec}, "parallelism": draw(LAYOUTS), "training": training}
    framework = draw(FRAMEWORKS)
    if spec.get("activation_func") == "geglu" and not spec["add_bias_linear"]:
        framework["bias_activation_fusion"] = False
    return Job.model_validate(parts | {"framework": framework})


@given(jobs())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_job_is_itself_again(job: Job) -> None:
    """Jobs that hold together have the same plan, others the same findings."""
    assert outcome(there_and_back(job)) == outcome(job)


def outcome(job: Job) -> Plan | list[str]:
    """What the estimator sees, without where each value came from; or what is refused."""
    try:
        return replace(plan_of(job), defaults=(), remarks=())
    except RefusedError as error:
        return [each.code for each in error.findings]


def test_what_a_release_sets_by_itself_is_not_said() -> None:
    words = megatron_arguments(job_of(parallelism={"num_gpus": 64, "tp": 2}))
    assert words[words.index("--tensor-model-parallel-size") + 1] == "2"
    assert "--pipeline-model-parallel-size" not in words
    assert "--sequence-parallel" in words


@pytest.mark.parametrize(
    ("parts", "pointer"),
    [
        ({"framework": {"name": "torchtitan"}}, "/framework/name"),
        ({"model": {"hf_id": "org/name"}}, "/model"),
        ({"training": {}}, "/training/global_batch_size"),
        ({"model": {"spec": SPEC | {"activation_func": "relu"}}}, "/model/spec/activation_func"),
        (
            {"framework": {"name": "megatron", "deallocate_pipeline_outputs": False}},
            "/framework/deallocate_pipeline_outputs",
        ),
        (
            {"parallelism": {"pp": 2, "pipeline_schedule": "gpipe"}},
            "/parallelism/pipeline_schedule",
        ),
        ({"training": {"global_batch_size": 8, "precision": "bf16-pure"}}, "/training/precision"),
        (
            {"training": {"global_batch_size": 8, "precision": {"fp8_recipe": "rowwise"}}},
            "/training/precision/fp8_recipe",
        ),
        (
            {"training": {"global_batch_size": 8, "optimizer": {"name": "adafactor"}}},
            "/training/optimizer/name",
        ),
        (
            {"training": {"global_batch_size": 8, "loss": {"cross_entropy": "liger"}}},
            "/training/loss/cross_entropy",
        ),
        ({"training": {"global_batch_size": 8, "peft": {"method": "lora"}}}, "/training/peft"),
        (
            {"training": {"global_batch_size": 8, "attention": {"backend": "sdpa"}}},
            "/training/attention/backend",
        ),
    ],
)
def test_what_cannot_be_said_is_named(parts: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RefusedError) as raised:
        megatron_arguments(job_of(**parts))
    assert pointer in {each.pointer for each in raised.value.findings}
