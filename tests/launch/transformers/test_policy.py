"""OpenRLHF's loop over Ray: the policy, and what shares its cards."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.specs.job import Job

OLDER = (
    "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray "
    "--actor_num_nodes 2 --actor_num_gpus_per_node 4 --ref_num_nodes 1 --ref_num_gpus_per_node 4 "
    "--vllm_num_engines 2 --pretrain meta-llama/Llama-3.1-8B --micro_train_batch_size 8 "
    "--train_batch_size 128 --rollout_batch_size 1024 --prompt_max_len 1024 "
    "--generate_max_len 2048 --zero_stage 3 --bf16 --flash_attn --gradient_checkpointing "
    "--advantage_estimator rloo --remote_rm_url http://localhost:5000 --packing_samples "
)
NEWER = (
    "python3 -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 8 --vllm.num_engines 4 "
    "--train.colocate_all --vllm.enable_sleep --ds.enable_sleep --ds.zero_stage 3 "
    "--actor.model_name_or_path meta-llama/Llama-3.1-8B --train.batch_size 128 --data.max_len 2048 "
    "--ds.param_dtype bf16 --actor.gradient_checkpointing_enable "
    "--algo.advantage.estimator group_norm --reward.remote_url reward.py "
)


def of(command: str) -> Read:
    return read(launch_of({"run.sh": command}))


def test_a_policy_is_a_step_on_prompts_and_answers() -> None:
    found = of(OLDER)
    fields = {
        name: value
        for name, value in found.fields().items()
        if name.startswith(("/parallelism", "/training", "/framework/data"))
    }
    assert fields == {
        "/framework/data_parallel_engine": "deepspeed",
        "/parallelism/num_gpus": 8,
        "/parallelism/data_parallel_sharding_strategy": "optim_grads_params",
        "/training/micro_batch_size": 8,
        "/training/num_microbatches": 2,
        "/training/seq_length": 3072,
        "/training/optimizer/name": "adam",
        "/training/optimizer/implementation": "fused",
        "/training/recompute/granularity": "full",
        "/training/attention/backend": "flash",
        "/training/precision": "bf16",
        "/training/loss/objective": "policy",
        "/training/loss/log_probs_by": "openrlhf",
        # --micro_rollout_batch_size 8, of 3072 tokens
        "/training/loss/scored_tokens": 24576,
    }
    # The engine and the reference have cards of their own.
    assert not found.account.bounded
    assert not found.unsupported
    Job.model_validate(found.job)


@pytest.mark.parametrize("program", ["train_ppo_ray", "train_sft"])
def test_packed_samples_have_flash_attention_asked_for_or_not(program: str) -> None:
    """openrlhf/cli sets flash_attn where samples are packed, with a warning."""
    command = OLDER.replace(" --flash_attn", "")
    if program == "train_sft":
        command = (
            "deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --max_len 2048 --zero_stage 3 "
            "--pretrain meta-llama/Llama-3.1-8B --micro_train_batch_size 2 --packing_samples --bf16"
        )
    packed = of(command)
    assert packed.field("/training/attention/backend") == "flash"
    assert not packed.unsupported
    assert "packing_samples" in packed.recognised
    padded = of(command.replace(" --packing_samples", ""))
    assert padded.field("/training/attention/backend") == "eager"
    both = of(f"{command} --flash_attn")
    assert {"packing_samples", "flash_attn"} <= both.recognised


def test_what_shares_the_cards_is_bounded() -> None:
    bounded = {each.key: each.bytes for each in of(NEWER).account.bounded}
    # two bytes of 8.03 billion weights over 8 ranks, and an engine that sleeps
    assert bounded["openrlhf.cli.train_ppo_ray"] == pytest.approx(2 * 8.03e9 / 8, rel=0.02)
    assert bounded["vllm.num_engines"] == 8 * 2**30
    without = of(f"{NEWER} --algo.kl.init_coef 0")
    assert "openrlhf.cli.train_ppo_ray" not in without.bounded
    assert of(f"{NEWER} --ref.offload").bounded == without.bounded
    assert not without.unsupported


@pytest.mark.parametrize(
    ("replaced", "by", "key"),
    [
        ("--vllm.enable_sleep", "", "vllm.num_engines"),
        ("--vllm.num_engines 4", "", "openrlhf.cli.train_ppo_ray"),
        (
            "--reward.remote_url reward.py",
            "--reward.model_name_or_path a/b",
            "reward.model_name_or_path",
        ),
        ("--train.batch_size", "--train.enable_ema --train.batch_size", "train.enable_ema"),
    ],
)
def test_what_else_lies_beside_is_not_modelled(replaced: str, by: str, key: str) -> None:
    assert of(NEWER.replace(replaced, by)).unsupported == {key}


def test_a_micro_batch_of_a_dynamic_size_is_one_of_its_tokens() -> None:
    dynamic = "--train.dynamic_batch_enable --train.micro_batch_size 4 --train.max_tokens_per_gpu"
    for tokens, length in ((16384, 16384), (1024, 2048)):
        found = of(f"{NEWER} {dynamic} {tokens}")
        assert found.field("/training/seq_length") == length
        assert found.field("/training/micro_batch_size") == 1
        assert not found.unsupported
    shared = of(
        f"{NEWER} {dynamic} 16384 --rollout.max_tokens_per_gpu 8192 --ds.tensor_parallel_size 2"
    )
    assert shared.field("/training/seq_length") == 2 * 16384
    assert shared.field("/training/loss/scored_tokens") == 2 * 8192
    still = of(f"{NEWER} --train.micro_batch_size 4 --train.max_tokens_per_gpu 16384")
    assert still.field("/training/seq_length") == 2048


@pytest.mark.parametrize("command", [OLDER.partition("-- ")[2], NEWER])
def test_no_key_goes_unnoticed(command: str) -> None:
    assert check_every_key(launch_of(argv=command.split())) > 3


def test_an_engine_that_is_awake_has_its_share_of_the_cards() -> None:
    older = OLDER + "--colocate_all_models --vllm_gpu_memory_utilization 0.45 "
    newer = NEWER.replace("--vllm.enable_sleep", "--vllm.gpu_memory_utilization 0.45")
    for command, key in ((older, "vllm_num_engines"), (newer, "vllm.num_engines")):
        (engine,) = [each for each in of(command).account.bounded if each.key == key]
        assert (engine.share, engine.bytes) == (0.45, 8 * 2**30)
    apart = of(OLDER + "--vllm_gpu_memory_utilization 0.9 ")
    assert not apart.account.bounded
    assert not apart.unsupported


def test_a_critic_that_sleeps_has_its_weights_on_the_card() -> None:
    critic = NEWER.replace("estimator group_norm", "estimator gae")
    bounded = {each.key: each.bytes for each in of(critic).account.bounded}
    assert bounded["algo.advantage.estimator"] == pytest.approx(2 * 8.03e9 / 8, rel=0.02)
    another = f"{critic} --critic.model_name_or_path another/model"
    for command in (another, critic.replace("--ds.enable_sleep", "")):
        assert of(command).unsupported == {"algo.advantage.estimator"}


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ("--temperature 1.0", {"log_probs_by": "openrlhf"}),
        ("--temperature 0.6", {"log_probs_by": "openrlhf-divided"}),
        # 0 tells of the entropy, and no backward runs through it
        ("--entropy_loss_coef 0.0", {"entropy": "none"}),
        ("--entropy_loss_coef 0.001", {"entropy": "compiled"}),
        ("--micro_rollout_batch_size 2", {"scored_tokens": 2 * 3072}),
        ("--deepspeed_enable_sleep", {"scored_beside_optimizer": False}),
    ],
)
def test_how_log_probabilities_are_computed(more: str, fields: dict[str, object]) -> None:
    found = of(f"{OLDER} {more}")
    assert not found.unsupported
    assert found.field("/training/loss/objective") == "policy"
    for name, value in fields.items():
        assert found.field(f"/training/loss/{name}") == value


def test_a_temperature_that_is_not_known_divides_at_most() -> None:
    found = of(f"T=$(choose)\n{OLDER} --temperature $T")
    assert found.field("/training/loss/log_probs_by") == "openrlhf-divided"
    assert {(each.key, each.direction) for each in found.account.bounded} == {
        ("temperature", "lowers")
    }


def test_gradients_that_wait_in_fp32_are_bounded() -> None:
    """get_train_ds_config: data_types.grad_accum_dtype."""
    (told,) = of(f"{OLDER} --grad_accum_dtype fp32").account.bounded
    assert told.bytes == pytest.approx(2 * 8.03e9 / 8, rel=0.02)


@pytest.mark.parametrize("more", ["--micro_train_batch_size 0", "--init_kl_coef abc"])
def test_a_number_that_is_none_breaks_nothing(more: str) -> None:
    of(OLDER + f"--colocate_actor_ref {more} ")
