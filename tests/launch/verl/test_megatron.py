"""verl's Megatron actor, as its examples give it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from tests.launch.verl.test_options import ACTOR, ENGINE, MODEL, TRAINER, words_of
from trainfit.launch.errors import LaunchError
from trainfit.questions.estimate import answer
from trainfit.specs.job import Job

MEGATRON = f"{ACTOR}.megatron"
TRANSFORMER = f"+{MEGATRON}.override_transformer_config"
DENSE, SPARSE = "grpo_qwen2_7b_megatron", "grpo_qwen3_30b_megatron"
RESERVED = {"gpu": {"memory_bytes": 80 * 2**30, "reserved_other_bytes": 2**30}}

EXAMPLES: dict[str, tuple[dict[str, Any], set[str]]] = {
    DENSE: (
        {
            "/model": {"hf_id": "Qwen/Qwen2-7B-Instruct"},
            "/parallelism/num_gpus": 8,
            "/parallelism/tp": 2,
            "/parallelism/pp": 2,
            "/parallelism/sequence_parallel": None,
            "/parallelism/data_parallel_sharding_strategy": "optim",
            "/training/seq_length": 2048,
            "/training/micro_batch_size": 4,
            "/training/num_microbatches": 160,
            "/training/precision": "bf16",
            "/training/attention/backend": "flash",
            "/training/attention/dropout": None,
            "/training/recompute/granularity": None,
            "/framework/name": "megatron",
            "/framework/gradient_accumulation_fusion": False,
            "/framework/make_vocab_size_divisible_by": 1,
            "/framework/overlap_grad_reduce": False,
            "/training/loss/objective": "policy",
            "/training/loss/log_probs_by": "verl-fused",
            "/training/loss/reference": "copy",
        },
        ENGINE,
    ),
    SPARSE: (
        {
            "/parallelism/ep": 8,
            "/parallelism/etp": 1,
            "/training/seq_length": 10240,
            "/training/micro_batch_size": 1,
            "/training/optimizer/cpu_offload_fraction": 1.0,
            "/training/optimizer/precision_aware": True,
            "/training/moe/token_dispatcher_type": "flex",
            "/training/moe/permute_fusion": True,
            "/framework/gradient_accumulation_fusion": True,
        },
        ENGINE | {f"{ACTOR}.optim.override_optimizer_config.overlap_cpu_optimizer_d2h_h2d"},
    ),
}
"""Fields of the job, and keys that are not modelled."""


BY_STRATEGY = [
    *[word for word in words_of(DENSE) if not word.startswith("--")],
    f"{ACTOR}.strategy=megatron",
]


def trained(*words: str, example: str = DENSE, **others: Any) -> Read:
    return read(launch_of(argv=[TRAINER, *words_of(example), *words], **others))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read(name: str) -> None:
    fields, unsupported = EXAMPLES[name]
    found = trained(example=name)
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert found.left_out == unsupported
    Job.model_validate(found.job)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_key_of_an_example_is_accounted_for_once(name: str) -> None:
    given = [word.partition("=")[0].lstrip("+") for word in words_of(name)]
    assert sorted(trained(example=name).keys) == sorted(set(given) - {"--config-path"})


def test_no_key_goes_unnoticed() -> None:
    assert check_every_key(launch_of(argv=[TRAINER, *BY_STRATEGY])) > 5


def test_an_actor_is_priced() -> None:
    words = (f"{MODEL}.use_fused_kernels=False", f"{MEGATRON}.param_offload=True")
    found = trained(*words, overrides=RESERVED)
    assert not found.unsupported
    assert len(answer(Job.model_validate(found.job)).stages) == 2


def test_the_strategy_may_stand_in_the_options() -> None:
    found = read(launch_of(argv=[TRAINER, *BY_STRATEGY]))
    assert found.field("/framework/name") == "megatron"
    assert found.job["parallelism"] == trained().job["parallelism"]


def test_one_word_chooses_the_engine_of_all_models() -> None:
    words = [*BY_STRATEGY[:-1], "model_engine=megatron"]
    found = read(launch_of(argv=[TRAINER, *words]))
    assert found.job == read(launch_of(argv=[TRAINER, *BY_STRATEGY])).job
    assert "model_engine" in found.recognised


def test_another_engine_is_refused_by_name() -> None:
    with pytest.raises(LaunchError, match="model_engine: of verl's engines dp and megatron"):
        read(launch_of(argv=[TRAINER, *BY_STRATEGY[:-1], "model_engine=torchtitan"]))


@pytest.mark.parametrize(
    ("word", "pointer", "value"),
    [
        (f"{MEGATRON}.dtype=float16", "/training/optimizer/precision_aware", True),
        (
            f"{MEGATRON}.use_distributed_optimizer=False",
            "/parallelism/data_parallel_sharding_strategy",
            "no_shard",
        ),
        (f"{MEGATRON}.virtual_pipeline_model_parallel_size=2", "/parallelism/vpp", 2),
        (f"{TRANSFORMER}.recompute_granularity=full", "/training/recompute/granularity", "full"),
        (f"{TRANSFORMER}.recompute_modules=[mlp]", "/training/recompute/modules", None),
        (f"{TRANSFORMER}.attention_backend=fused", "/training/attention/backend", "fused"),
        (
            f"{TRANSFORMER}.num_layers_in_last_pipeline_stage=13",
            "/parallelism/num_layers_in_last_pipeline_stage",
            13,
        ),
        (
            f"+{MEGATRON}.override_ddp_config.overlap_grad_reduce=True",
            "/framework/overlap_grad_reduce",
            True,
        ),
        (
            f"+{MEGATRON}.override_ddp_config.grad_reduce_in_fp32=False",
            "/training/precision",
            {"gradients": "bf16", "main_params": "fp32"},
        ),
    ],
)
def test_a_key_is_an_argument(word: str, pointer: str, value: Any) -> None:
    assert trained(word).field(pointer) == value


def test_tokens_are_those_of_context_parallel_ranks() -> None:
    words = (
        f"{ACTOR}.use_dynamic_bsz=True",
        f"{ACTOR}.ppo_max_token_len_per_gpu=4096",
        f"{MEGATRON}.context_parallel_size=2",
    )
    found = trained(*words)
    assert found.field("/training/seq_length") == 8192
    assert found.field("/training/num_microbatches") == 256 * 5 * 8 // 8 // 4


@pytest.mark.parametrize(
    ("word", "key"),
    [
        (f"{MEGATRON}.vanilla_mbridge=False", f"{MEGATRON}.vanilla_mbridge"),
        (f"{MEGATRON}.use_remove_padding=False", f"{MEGATRON}.use_remove_padding"),
        (f"{MODEL}.lora_rank=16", f"{MODEL}.lora_rank"),
        (f"{MODEL}.mtp.enable=True", f"{MODEL}.mtp.enable"),
        (f"{TRANSFORMER}.external_cuda_graph=True", TRANSFORMER[1:] + ".external_cuda_graph"),
        (f"+{MEGATRON}.magic=1", f"{MEGATRON}.magic"),
    ],
)
def test_what_is_not_modelled_is_unsupported(word: str, key: str) -> None:
    assert key in trained(word).unsupported


def test_a_reference_model_that_waits_on_the_host_changes_nothing() -> None:
    key = "actor_rollout_ref.ref.megatron.param_offload=True"
    assert trained(key).field("/training/loss/reference") is None
    assert trained(overrides=RESERVED).field("/training/loss/reference") is None


@pytest.mark.parametrize(
    "more", [f"{MEGATRON}.grad_offload=True", f"{MODEL}.use_fused_kernels=True"]
)
def test_logits_of_what_is_scored_are_bounded_unless_states_wait_or_kernels_tile(more: str) -> None:
    key = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"
    words = (f"{MODEL}.use_fused_kernels=False", f"{key}=8")
    (told,) = [each for each in trained(*words).account.bounded if each.key == key]
    # 8 samples of 2048 tokens three times, a micro-batch of 4 twice, in fp32 of half the vocabulary
    assert told.bytes == 4 * (3 * 8 - 2 * 4) * 2048 * 152_064 // 2
    assert key not in trained(*words, more).bounded


def test_an_entropy_is_that_of_all_logits_unless_kernels_have_the_head_in_one() -> None:
    words = f"{ACTOR}.entropy_coeff=0.01", f"{MODEL}.use_fused_kernels=False"
    pointer = "/training/loss/entropy"
    assert trained(*words).field(pointer) == "whole"
    assert trained(*words).field("/training/loss/log_probs_by") == "verl"
    assert trained(words[0]).field(pointer) is None
    assert trained(words[1]).field(pointer) is None


def test_another_release_has_another_actor() -> None:
    with pytest.raises(LaunchError, match=r"Megatron actor is read as v0\.7\.0 has it"):
        trained(framework_version="v0.5.0")
