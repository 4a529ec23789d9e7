"""TRL's GRPO: what its step is priced as, and what bounds the rest, by hand from its source."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.launch.account import Bounded
from trainfit.launch.errors import LaunchError
from trainfit.questions.python import fit_check

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
LAYERS, HIDDEN, WIDTH, ROWS, CACHED = 28, 1536, 8960, 151936, 2 * 2 * 128
COMMAND = (
    "accelerate launch --num_processes 4 --mixed_precision bf16 grpo.py "
    f"--model_name_or_path {MODEL} --per_device_train_batch_size 8 --max_completion_length 512 "
    "--num_generations 8 --output_dir out --bf16 --gradient_accumulation_steps 2"
)


def of(more: str = "", version: str | None = "trl==0.24.0", **others: Any) -> Read:
    text = f"{COMMAND} {more}"
    return read(launch_of({"run.sh": text}, framework_version=version, **others))


def bounded(found: Read) -> dict[str, Bounded]:
    return {each.key: each for each in found.account.bounded}


def test_the_step_is_on_a_prompt_and_what_is_generated() -> None:
    found = of()
    assert found.field("/training/seq_length") == 512 + 512
    assert found.field("/training/micro_batch_size") == 8
    assert found.field("/training/loss/objective") == "policy"
    assert found.field("/training/loss/logits_to_keep") == 512
    assert found.field("/training/recompute/granularity") == "full"
    assert not found.unsupported
    longer = of("--max_prompt_length 1536")
    assert longer.field("/training/seq_length") == 2048
    with pytest.raises(LaunchError, match="nothing says how long a sample is"):
        of(version="trl==1.9.0")


@pytest.mark.parametrize(
    ("release", "by"),
    [
        ("0.16.1", "trl-grpo-0.16"),
        ("0.19.0", "trl-grpo-0.16"),
        ("0.22.2", "trl-grpo-0.20"),
        ("0.24.0", "trl-grpo-0.23"),
        ("1.0.0", "trl-grpo-1.0"),
        ("1.9.2", "trl-grpo-1.0"),
        ("1.13.0", "trl-grpo-1.10"),
        ("1.14.2", "trl-grpo-1.14"),
        ("1.16.0", "trl-1.15"),
    ],
)
def test_log_probabilities_are_computed_as_the_release_does(release: str, by: str) -> None:
    found = of(version=f"trl=={release}", overrides={"training": {"seq_length": 1024}})
    assert found.field("/training/loss/log_probs_by") == by


def test_256_tokens_are_generated_unless_told_otherwise() -> None:
    text = COMMAND.replace("--max_completion_length 512 ", "")
    found = read(launch_of({"run.sh": text}, framework_version="trl==0.24.0"))
    assert found.field("/training/loss/logits_to_keep") == 256
    assert found.field("/training/seq_length") == 512 + 256


def test_ligers_kernel_only_lowers() -> None:
    (liger,) = [each for key, each in bounded(of("--use_liger_loss")).items() if "liger" in key]
    assert liger.direction == "lowers"


@pytest.mark.parametrize(
    ("more", "version", "reference"),
    [
        ("", "trl==0.24.0", None),
        ("", "trl==0.18.0", "copy"),
        ("--beta 0.04", "trl==0.24.0", "copy"),
        ("--beta 0.0", "trl==0.18.0", "none"),
        ("--beta 0.04 --use_peft", "trl==0.24.0", "base"),
    ],
)
def test_a_reference_is_held_where_the_policy_is_held_to_it(
    more: str, version: str, reference: str | None
) -> None:
    found = of(more, version)
    assert found.job["training"]["loss"].get("reference") == reference
    assert "beta" not in bounded(found)


def test_what_generates_is_bounded_by_keys_and_values_of_a_turn() -> None:
    generation = bounded(of())["use_vllm"]
    samples, length = 8 * 2, 1024
    cache = samples * length * CACHED * LAYERS
    layer = samples * length * (6 * HIDDEN + 3 * WIDTH)
    assert generation.bytes == 4 * (cache + layer + samples * ROWS)


@pytest.mark.parametrize(
    ("more", "version", "left"),
    [
        ("--use_vllm", "trl==0.24.0", None),
        ("--use_vllm --vllm_mode server", "trl==1.9.0", None),
        ("--use_vllm --max_prompt_length 64 --vllm_mode colocate", "trl==0.24.0", "bounded"),
        ("--use_vllm --vllm_mode colocate --vllm_enable_sleep_mode", "trl==0.24.0", "bounded"),
    ],
)
def test_an_engine_shares_the_card_where_it_is_told_to(
    more: str, version: str, left: str | None
) -> None:
    lengths = {"training": {"seq_length": 1024}}
    found = of(more, version, overrides=lengths)
    if left is None:
        assert not found.left_out & {"use_vllm", "vllm_mode"}
    else:
        assert "vllm_mode" in getattr(found, left)
    told = of(more, version, overrides={**lengths, "gpu": {"reserved_other_bytes": 2**34}})
    assert not told.left_out & {"use_vllm", "vllm_mode"}


def test_the_latest_has_its_engine_on_the_cards() -> None:
    found = of("--use_vllm", "trl==1.9.0", overrides={"training": {"seq_length": 1024}})
    assert "use_vllm" in found.bounded


def test_no_key_goes_unnoticed() -> None:
    argv = COMMAND.split("bf16 ", 1)[1].split()
    others: Any = {
        "overrides": {"parallelism": {"num_gpus": 4}},
        "framework_version": "trl==0.24.0",
    }
    assert check_every_key(launch_of(argv=["python", *argv], **others)) > 3


def test_another_script_of_that_name_is_not_taken_for_it() -> None:
    words = f"python grpo.py --model_name_or_path {MODEL} --per_device_train_batch_size 1 --x 1"
    others: Any = {"overrides": {"training": {"seq_length": 512, "precision": "bf16"}}}
    assert "grpo" in read(launch_of({"run.sh": words}, **others)).unsupported


def test_a_verdict_stands() -> None:
    launch = {"files": [{"path": "run.sh", "content": COMMAND}], "gpu": "H100-80GB"}
    answer = fit_check({"launch": {**launch, "framework_version": "trl==0.24.0"}}, suggest=False)
    assert answer.verdict == "fits"


def test_an_engine_that_is_awake_has_its_share_of_the_card() -> None:
    lengths = {"training": {"seq_length": 1024}}
    here, share = "--use_vllm --vllm_mode colocate", "--vllm_gpu_memory_utilization"
    for more, expected in ((here, 0.3), (f"{here} {share} 0.45", 0.45)):
        (engine,) = of(more, "trl==0.24.0", overrides=lengths).account.bounded
        assert (engine.direction, engine.share) == ("raises", expected)
    (asleep,) = of(
        f"{here} --vllm_enable_sleep_mode", "trl==0.24.0", overrides=lengths
    ).account.bounded
    assert (asleep.share, asleep.bytes) == (0, 8 * 2**30)
