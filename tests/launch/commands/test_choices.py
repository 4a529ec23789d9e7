"""Conditions of a script that only its run decides: each way is read."""

from __future__ import annotations

import pytest

from tests.launch.launches import Read, launch_of, read
from trainfit.launch.errors import LaunchError

MODEL = (
    "--num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 1 --bf16 --vocab-size 32000"
)
TRAIN = f"torchrun --nproc_per_node 8 pretrain_gpt.py {MODEL}"
FOUND = '[ -d "$SAVE" ] && [ "$(ls -A $SAVE | head -1)" ]'


def script(*lines: str, argv: list[str] | None = None) -> Read:
    return read(launch_of({"train.sh": "\n".join(("SAVE=/ckpt", *lines))}, argv))


def test_flags_that_change_nothing_may_be_given_or_not() -> None:
    found = script(
        f"if {FOUND}; then FLAG=''; RNG=''; FROM=$SAVE",
        "else FLAG=--finetune; RNG=--no-load-rng; FROM=/base; fi",
        f'ARGS=(--load $FROM $FLAG); {TRAIN} "${{ARGS[@]}}" $RNG',
    )
    assert found.job == script(TRAIN).job
    assert found.irrelevant >= {"--finetune", "--no-load-rng", "--load"}
    assert not found.left_out


def test_one_key_has_one_place_in_the_account() -> None:
    found = script("[ -d /a ] && FLAG=--finetune", f"{TRAIN} $FLAG --no-load-rng")
    assert found.keys.count("--finetune") == 1
    assert found.keys.count("--no-load-rng") == 1


def test_a_condition_of_several_is_followed_each_way() -> None:
    found = script(
        "if [ -d /a ]; then FLAG=--finetune; elif [ -d /b ]; then FLAG=--no-load-rng",
        "else FLAG=--no-load-optim; fi",
        f"{TRAIN} $FLAG",
    )
    assert found.irrelevant >= {"--finetune", "--no-load-rng", "--no-load-optim"}


@pytest.mark.parametrize(
    "lines",
    [
        ["[ -d /a ] && FLAG='--recompute-activations'"],
        ['for i in 1 2; do if [ -d /a$i ]; then FLAG="$FLAG --finetune"; fi; done'],
    ],
    ids=["another job", "each turn of a loop decides anew"],
)
def test_what_makes_another_job_is_not_known(lines: list[str]) -> None:
    with pytest.raises(LaunchError, match="FLAG} is not known"):
        script(*lines, f"{TRAIN} $FLAG")


def test_what_a_user_can_say_is_asked_for() -> None:
    lines = ['if [ "$1" = new ]; then FLAG=--finetune; fi', f"{TRAIN} $FLAG --seq-length $2"]
    with pytest.raises(LaunchError, match=r"\$2 is not given"):
        script(*lines)
    assert "--finetune" in script(*lines, argv=["new", "512"]).irrelevant


def test_a_way_that_ends_the_script_trains_nothing() -> None:
    found = script(
        "if [ -d /a ]; then FLAG=--finetune; else exit 0; fi", f"{TRAIN} $FLAG $([ -d /b ])"
    )
    assert found.job == script(TRAIN).job


def test_what_is_wrong_whichever_way_it_goes_is_all_that_is_said() -> None:
    with pytest.raises(LaunchError) as error:
        script("[ -d /a ] && FLAG=--finetune", f"{TRAIN} $FLAG --seq-length none")
    assert "FLAG" not in str(error.value)
    assert "--seq-length" in str(error.value)


def test_hyperpod_may_start_a_step_again() -> None:
    found = script(
        "[ -d /opt/sagemaker_cluster ] && RESUME=--auto-resume=1",
        f"srun -N 1 -n 8 $RESUME -l python pretrain_gpt.py {MODEL}",
    )
    assert "--auto-resume" in found.irrelevant
    assert found.field("/parallelism/num_gpus") == 8
