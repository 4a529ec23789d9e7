"""Options of verl's PPO trainer, as its examples give them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.launch.launches import DATA, Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.specs.job import Job

TRAINER = "verl.trainer.main_ppo"
ACTOR, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"
ENGINE = {"actor_rollout_ref.rollout.gpu_memory_utilization"}
LONGER = "critic.ppo_max_token_len_per_gpu"
CRITIC = {"algorithm.adv_estimator"}
EXAMPLE = "grpo_qwen2_7b"

EXAMPLES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "grpo_deepseek_7b_seq_balance": (
        {"/training/seq_length": 24000, "/training/micro_batch_size": 1},
        ENGINE,
    ),
    "grpo_qwen2_5_3b_lora": (
        {"/training/peft/r": 64, "/training/peft/target_modules": "all-linear"},
        ENGINE,
    ),
    "grpo_qwen2_7b": (
        {
            "/model": {"hf_id": "Qwen/Qwen2-7B-Instruct"},
            "/parallelism/num_gpus": 8,
            "/training/seq_length": 1536,
            "/training/micro_batch_size": 40,
            "/training/num_microbatches": 4,
            "/training/precision/params": "fp32",
            "/training/precision/compute": "bf16",
            "/training/loss/objective": "policy",
            "/training/loss/log_probs_by": "verl",
            "/training/loss/entropy": None,
            "/training/loss/scored_tokens": 40 * 1536,
            "/training/recompute/granularity": "full",
            "/framework/data_parallel_engine": "fsdp1",
            "/framework/sync_each_micro_batch": True,
        },
        ENGINE,
    ),
    "grpo_qwen3_8b": ({"/training/micro_batch_size": 32}, ENGINE),
    "grpo_seed_oss_36b": (
        {"/framework/data_parallel_engine": "fsdp2"},
        ENGINE,
    ),
    "ppo_deepseek_7b_sp2": (
        {"/parallelism/cp": 2, "/parallelism/cp_comm_type": "a2a"},
        ENGINE | CRITIC | {"critic.ppo_micro_batch_size_per_gpu"},
    ),
    "ppo_qwen2_5_32b": ({"/parallelism/num_gpus": 32}, ENGINE | CRITIC),
    "ppo_qwen2_7b_fused_kernels": (
        {"/training/seq_length": 24000, "/training/loss/log_probs_by": "verl-fused"},
        ENGINE | CRITIC | {LONGER, "reward_model.enable"},
    ),
    "remax_qwen2_5_7b": ({"/training/seq_length": 24000}, ENGINE),
    "rloo_qwen2_7b": ({"/training/micro_batch_size": 80}, ENGINE),
}
"""Fields of the job, and keys that are not modelled."""


def words_of(name: str) -> list[str]:
    text = (DATA / "verl" / f"{name}.args").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def trained(*words: str, example: str = EXAMPLE, **others: Any) -> Read:
    return read(launch_of(argv=[TRAINER, *words_of(example), *words], **others))


def refused(*words: str, **others: Any) -> str:
    with pytest.raises(LaunchError) as raised:
        trained(*words, **others)
    return str(raised.value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read(name: str) -> None:
    fields, unsupported = EXAMPLES[name]
    found = trained(example=name)
    assert {pointer: found.field(pointer) for pointer in fields} == fields
    assert found.left_out == unsupported
    assert Job.model_validate(found.job).framework.name == "transformers"


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_key_of_an_example_is_accounted_for_once(name: str) -> None:
    given = [word.partition("=")[0] for word in words_of(name)]
    assert sorted(trained(example=name).keys) == sorted(given)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_key_goes_unnoticed(name: str) -> None:
    assert check_every_key(launch_of(argv=[TRAINER, *words_of(name)])) > 5


KEYS = (DATA / "verl" / "keys.txt").read_text("utf-8").splitlines()[1:]


def test_every_key_of_a_release_stands_in_a_list() -> None:
    assert len(KEYS) > 600
    for key in KEYS:
        try:
            found = trained(f"{key}=1")
        except LaunchError as error:
            assert f"argv: {key}: " in str(error), key  # noqa: PT017
            continue
        said = {each.key: each.why for each in found.account.unsupported}
        assert "no list" not in said.get(key, ""), key
        assert key in found.recognised | found.irrelevant | found.left_out


def test_the_rollout_engine_is_given_in_bytes() -> None:
    found = trained(overrides={"gpu": {"memory_bytes": 80 * 2**30, "reserved_other_bytes": 2**30}})
    assert not found.unsupported


def test_a_key_of_an_own_making_is_unsupported() -> None:
    assert f"{ACTOR}.magic" in trained(f"+{ACTOR}.magic=True").unsupported


@pytest.mark.parametrize("key", ["entropy_coeff=0.001", "calculate_entropy=True"])
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ((), "compiled"),
        ((f"{ACTOR}.use_torch_compile=False",), "whole"),
        ((f"{ACTOR}.use_torch_compile=False", f"{ACTOR}.entropy_checkpointing=True"), "remade"),
        ((f"{ACTOR}.entropy_checkpointing=True",), "compiled"),
        ((f"{MODEL}.use_remove_padding=False",), "whole"),
        ((f"{MODEL}.use_remove_padding=False", f"{ACTOR}.entropy_checkpointing=True"), "remade"),
        ((f"{MODEL}.use_fused_kernels=True", f"{ACTOR}.use_torch_compile=False"), "compiled"),
    ],
)
def test_an_entropy_is_compiled_or_whole(key: str, words: tuple[str, ...], kind: str) -> None:
    found = trained(f"{ACTOR}.{key}", *words)
    assert found.field("/training/loss/entropy") == kind
    assert found.left_out == ENGINE


def test_an_entropy_in_chunks_is_compiled_too() -> None:
    words = [f"{ACTOR}.entropy_coeff=1", f"{ACTOR}.entropy_from_logits_with_chunking=True"]
    assert trained(*words).left_out == ENGINE
    alone = trained(*words, f"{ACTOR}.use_torch_compile=False")
    assert f"{ACTOR}.entropy_from_logits_with_chunking" in alone.unsupported


def test_releases_before_v0_4_compute_the_entropy_anyway() -> None:
    found = trained(framework_version="0.3.0.post1")
    assert found.field("/training/loss/entropy") == "compiled"


def test_of_padded_samples_what_was_generated_is_read() -> None:
    found = trained(f"{MODEL}.use_remove_padding=False")
    assert found.field("/training/loss/log_probs_by") == "verl-padded"
    assert found.field("/training/loss/logits_to_keep") == 1024


def test_the_reference_scores_where_it_is_needed() -> None:
    micro = "log_prob_micro_batch_size_per_gpu"
    words = [f"actor_rollout_ref.rollout.{micro}=4", f"actor_rollout_ref.ref.{micro}=8"]
    without = [f"{ACTOR}.use_kl_loss=False", f"{ACTOR}.fsdp_config.optimizer_offload=True"]
    assert trained(*words).field("/training/loss/scored_tokens") == 8 * 1536
    found = trained(*words, *without)
    assert found.field("/training/loss/scored_tokens") == 4 * 1536
    assert found.field("/training/loss/scored_beside_optimizer") is False


def test_tokens_that_are_scored_at_once_are_packed_where_the_update_packs() -> None:
    most = "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"
    sp = f"{ACTOR}.ulysses_sequence_parallel_size=2"
    words = [f"{ACTOR}.use_dynamic_bsz=True", f"{most}=32768", f"{ACTOR}.use_kl_loss=False"]
    assert trained(*words, sp).field("/training/loss/scored_tokens") == 32768


def test_nodes_that_are_not_known_are_whole_ones() -> None:
    launch = launch_of(
        {"run.sh": f"python -m {TRAINER} {' '.join(words_of(EXAMPLE))} trainer.nnodes=$NODES"},
        overrides={"parallelism": {"num_gpus": 4}},
    )
    with pytest.raises(LaunchError, match="nodes of 8 do not make 4"):
        read(launch)


def test_padding_is_kept_by_default_until_v0_7() -> None:
    words = [word for word in words_of(EXAMPLE) if "use_remove_padding" not in word]
    assert not read(launch_of(argv=[TRAINER, *words])).unsupported - ENGINE
    before = read(launch_of(argv=[TRAINER, *words], framework_version="v0.6.1"))
    by = [
        found.field("/training/loss/log_probs_by")
        for found in (read(launch_of(argv=[TRAINER, *words])), before)
    ]
    assert by == ["verl", "verl-padded"]


def test_a_release_that_is_not_known_is_refused() -> None:
    assert "of verl v0.1, v0.2, v0.2.0" in refused(framework_version="v9")


def test_a_critic_is_there_by_default() -> None:
    words = [word for word in words_of(EXAMPLE) if "adv_estimator" not in word]
    with pytest.raises(LaunchError, match="by default a critic that shares the card"):
        read(launch_of(argv=[TRAINER, *words]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((f"{ACTOR}.fsdp_config.fsdp_size=3",), "does not divide 8 GPUs"),
        ((f"{MODEL}.path=~/models/x",), "send ~/models/x/config.json"),
        # a script's variable that is empty where nobody gives it
        ((f"{MODEL}.path=''",), f"{MODEL}.path: it is empty; give /model in overrides"),
        ((f"{ACTOR}.ppo_micro_batch_size_per_gpu=null",), "how many samples a micro-batch has"),
        ((f"{MODEL}.path",), "is no key=value"),
    ],
)
def test_what_is_not_known_is_refused(words: tuple[str, ...], message: str) -> None:
    assert message in refused(*words)


def test_another_trainer_is_refused() -> None:
    with pytest.raises(LaunchError, match="verl's trainer main_generation is not read"):
        read(launch_of(argv=["verl.trainer.main_generation"]))


def test_groups_of_ranks_hold_a_copy_each() -> None:
    found = trained(f"{ACTOR}.fsdp_config.fsdp_size=4")
    assert found.field("/parallelism/data_parallel_replicate_size") == 2


def test_tokens_are_those_of_all_ranks_that_share_a_sequence() -> None:
    words = ("use_dynamic_bsz=True", "ppo_max_token_len_per_gpu=8192")
    found = trained(*(f"{ACTOR}.{word}" for word in words))
    assert found.field("/training/seq_length") == 8192
    shared = (*words, "ulysses_sequence_parallel_size=4")
    found = trained(*(f"{ACTOR}.{word}" for word in shared))
    assert found.field("/training/seq_length") == 4 * 8192
    assert found.field("/parallelism/cp") == 4


def test_a_yaml_file_is_read_with_its_references() -> None:
    text = """
        data: {max_prompt_length: 1024, max_response_length: 1024}
        actor_rollout_ref:
          model: {path: Qwen/Qwen3-8B, use_remove_padding: true}
          actor:
            strategy: fsdp2
            ppo_micro_batch_size_per_gpu: ${trainer.nnodes}
          rollout: {n: 8, gpu_memory_utilization: 0.5}
        algorithm: {adv_estimator: grpo}
        trainer: {nnodes: 2, n_gpus_per_node: 8}
    """
    found = read(launch_of({"conf/trainer.yaml": text}))
    assert found.left_out == ENGINE
    assert found.field("/training/micro_batch_size") == 2
    assert found.field("/parallelism/num_gpus") == 16
    over = read(launch_of({"conf/trainer.yaml": text}, [TRAINER, "trainer.nnodes=4"]))
    assert over.field("/parallelism/num_gpus") == 32


@pytest.mark.parametrize("value", ["[]", "{}", "null", "x", "1.5", "0", "-1", "[[1], {a: 2}]"])
def test_a_value_of_another_kind_breaks_nothing(value: str) -> None:
    for key in KEYS:
        if key.startswith((ACTOR, MODEL)):
            with suppress(LaunchError):
                trained(f"{key}={value}")


def test_an_engine_that_sleeps_holds_at_most_so_much() -> None:
    (engine,) = trained().account.bounded
    assert (engine.direction, engine.bytes) == ("raises", 8 * 2**30)
    (other,) = trained("actor_rollout_ref.rollout.name=sglang").account.bounded
    assert other.bytes == engine.bytes


def test_an_engine_that_is_awake_has_its_share_of_the_card() -> None:
    rollout = "actor_rollout_ref.rollout"
    frees, share = f"{rollout}.free_cache_engine", f"{rollout}.gpu_memory_utilization"
    (engine,) = trained(f"{frees}=False", f"{share}=0.4").account.bounded
    assert (engine.direction, engine.share) == ("raises", 0.4)
    plain = [each for each in words_of(EXAMPLE) if share not in each]
    launch = launch_of(argv=[TRAINER, *plain, f"{frees}=False"])
    (engine,) = read(launch).account.bounded
    assert engine.share == 0.5
    other = trained(f"{frees}=False", f"{rollout}.name=sglang")
    assert other.unsupported == {frees, share}


def test_an_engine_that_nothing_is_said_of_sleeps() -> None:
    words = [each for each in words_of(EXAMPLE) if "gpu_memory_utilization" not in each]
    found = read(launch_of(argv=[TRAINER, *words]))
    assert (found.bounded, found.unsupported) == (ENGINE, set())


def test_a_critic_of_the_same_model_holds_its_states() -> None:
    """fp32 and two moments of 7.6 billion parameters over 8 ranks, and a hundredth."""
    words = ("algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2-7B-Instruct")
    tokens = ("actor_rollout_ref.actor.use_dynamic_bsz=True", "ppo_max_token_len_per_gpu=32768")
    found = trained(*words, tokens[0], f"{ACTOR}.{tokens[1]}")
    (told,) = [each for each in found.account.bounded if each.key == "algorithm.adv_estimator"]
    assert told.direction == "raises"
    assert told.bytes == pytest.approx(7.62e9 * 12 / 8, rel=0.02)
    assert LONGER not in found.left_out


def test_a_critic_of_longer_micro_batches_is_priced_as_the_actor_on_them() -> None:
    """critic.yaml: 32,768 tokens where nothing is said, of each of two ranks that share them."""
    words = ("algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2-7B-Instruct")
    dynamic = f"{ACTOR}.use_dynamic_bsz=True"
    ranks = f"{ACTOR}.ulysses_sequence_parallel_size=2"
    away = [f"critic.model.fsdp_config.{part}_offload=True" for part in ("param", "optimizer")]
    found = trained(*words, dynamic, ranks, *away)
    (told,) = [each for each in found.account.bounded if "critic" in each.key]
    assert told.key == LONGER
    assert told.apart
    within = {each.pointer: each.value for each in told.within}
    assert within == {"/training/seq_length": 65_536, "/training/micro_batch_size": 1}
    whole = trained(*words, "critic.ppo_micro_batch_size_per_gpu=160", *away)
    (told,) = [each for each in whole.account.bounded if "critic" in each.key]
    samples = whole.field("/training/micro_batch_size")
    assert samples == 40
    assert {each.pointer: each.value for each in told.within} == {"/training/micro_batch_size": 160}
    assert "algorithm.adv_estimator" in trained(*words).unsupported


def test_fused_kernels_make_no_logits() -> None:
    found = trained(f"{MODEL}.use_fused_kernels=True")
    assert found.field("/training/loss/log_probs_by") == "verl-fused"
    backend = f"{MODEL}.fused_kernel_options.impl_backend=triton"
    assert backend.partition("=")[0] in trained(f"{MODEL}.use_fused_kernels=True", backend).bounded


def test_a_micro_batch_of_all_gpus_is_shared_out() -> None:
    null, whole = f"{ACTOR}.ppo_micro_batch_size_per_gpu=null", f"{ACTOR}.ppo_micro_batch_size"
    words = [null, f"{whole}=64", f"{ACTOR}.ulysses_sequence_parallel_size=2"]
    found = trained(*words)
    assert found.field("/training/micro_batch_size") == 16
    assert whole in found.recognised
    assert "leave none for each of 8" in refused(null, f"{whole}=7")


def test_such_a_micro_batch_tells_of_the_first_release() -> None:
    given = ("use_remove_padding", "enable_gradient_checkpointing", "micro_batch_size_per_gpu")
    words = [each for each in words_of(EXAMPLE) if not any(key in each for key in given)]
    words = [TRAINER, *words, f"{ACTOR}.ppo_micro_batch_size=64"]
    assert read(launch_of(argv=words)).field("/training/loss/log_probs_by") == "verl-padded"
    found = read(launch_of(argv=[*words, f"{MODEL}.use_remove_padding=True"]))
    assert found.field("/training/recompute/granularity") is None
    assert found.field("/training/loss/entropy") == "compiled"
    found = read(launch_of(argv=words, framework_version="v0.7.0"))
    assert found.field("/training/recompute/granularity") == "full"


def test_keys_that_are_gone_tell_of_their_releases() -> None:
    gone = "trainer.val_generations_to_log_to_wandb=1"
    launch = launch_of(argv=[TRAINER, *words_of(EXAMPLE), gone])
    reading = read_launch(launch)
    assert read(launch).field("/training/loss/entropy") == "compiled"
    assert reading.launch.releases is None  # the same job under all of them
    assert trained(f"+{gone}").field("/training/loss/entropy") is None
    named = read(launch.model_copy(update={"framework_version": "v0.7.0"}))
    assert named.field("/training/loss/entropy") is None


def test_a_micro_batch_of_one_gpu_is_not_of_the_first_release() -> None:
    words = [word for word in words_of(EXAMPLE) if "gradient_checkpointing" not in word]
    gone = f"{ACTOR}.fsdp_config.grad_offload=False"
    reading = read_launch(launch_of(argv=[TRAINER, *words, gone]))
    assert reading.job["training"]["recompute"] == {"granularity": "full"}
    assert not reading.launch.variants


def test_keys_that_no_release_has_together_are_read_with_the_latest() -> None:
    gone = ["trainer.remove_previous_ckpt_in_save=True", "algorithm.rollout_is=False"]
    assert trained(*gone).field("/training/loss/entropy") is None


@pytest.mark.parametrize("word", ["algorithm.adv_estimator=raft", "critic.enable=False"])
def test_only_estimates_of_a_critic_need_one(word: str) -> None:
    plain = [each for each in words_of(EXAMPLE) if "adv_estimator" not in each]
    assert read(launch_of(argv=[TRAINER, *plain, word])).left_out == ENGINE


def test_a_critic_may_be_asked_for() -> None:
    assert trained("critic.enable=True").left_out == ENGINE | CRITIC


def test_a_reward_model_that_learns_is_left_out() -> None:
    assert "reward_model.rm_type" in trained("reward_model.rm_type=prime").left_out


def test_samples_are_not_scored_by_the_actor_where_the_engine_did() -> None:
    """Keys of what does not run are read all the same (examples/rollout_correction)."""
    rollout, bypass = "actor_rollout_ref.rollout", "algorithm.rollout_correction.bypass_mode=True"
    found = trained(f"{rollout}.log_prob_micro_batch_size_per_gpu=80", bypass)
    assert found.field("/training/loss/scored_tokens") == 40 * 1536  # by the reference
    without = trained(bypass, f"{ACTOR}.use_kl_loss=False")
    assert without.field("/training/loss/scored_tokens") is None
    assert without.left_out == ENGINE


def test_a_model_of_rewards_sleeps_on_the_cards_or_has_its_own() -> None:
    """examples/grpo_trainer/run_mistral_nemo_12b_skyworkrm_fsdp.sh."""
    rewards = "reward.reward_model"
    words = [
        f"{rewards}.enable=True",
        f"{rewards}.model_path=Skywork/Skywork-Reward-Gemma-2-27B-v0.2",
    ]
    words.append(f"+{rewards}.rollout.name=vllm")
    assert trained(*words).bounded == ENGINE | {f"{rewards}.enable"}
    assert trained(*words, f"{rewards}.enable_resource_pool=True").left_out == ENGINE
    awake = trained(*words, f"+{rewards}.rollout.free_cache_engine=False")
    assert awake.unsupported == {f"{rewards}.enable"}


def test_options_of_an_engine_change_nothing() -> None:
    engine = "actor_rollout_ref.rollout.engine_kwargs"
    words = (
        f"+{engine}.vllm.compilation_config.cudagraph_mode=FULL",
        f"+{engine}.sglang.chunked_prefill_size=8192",
    )
    assert trained(*words).left_out == ENGINE


@pytest.mark.parametrize(("release", "by"), [("0.8.0", "verl"), ("v0.9.0", "verl-0.9")])
def test_later_releases_are_read_where_they_are_named(release: str, by: str) -> None:
    found = trained(f"{ACTOR}.entropy_coeff=0.001", framework_version=release)
    assert found.field("/training/loss/log_probs_by") == by
    assert found.field("/training/loss/entropy") == "compiled"
    pads = f"{MODEL}.use_remove_padding=False"
    assert f"{MODEL}.use_remove_padding" in trained(pads, framework_version=release).unsupported
    assert not trained(pads, framework_version="v0.7.1").unsupported
