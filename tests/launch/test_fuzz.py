"""Launch files and command lines that are damaged: they are read or refused, and soon."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.launch.launches import DATA, launch_of, read, within
from trainfit.launch.errors import LaunchError
from trainfit.launch.read import read_launch
from trainfit.specs.launch import LaunchFormat

TEXTS = {
    str(path.relative_to(DATA)): path.read_text("utf-8")
    for path in sorted(DATA.rglob("*"))
    if path.is_file() and path.name not in ("cases.yaml", "keys.txt")
}
FILES = [path for path in TEXTS if not path.endswith(".args")]
PROGRAMS = (
    "torchtitan.train",
    "./run_train.sh",
    "tune",
    "verl.trainer.main_ppo",
    "pretrain_gpt.py",
    "accelerate",
    "deepspeed",
    "torchrun",
    "trl",
    "train.py",
    "sbatch",
    "bash",
)
"""What starts a launch of each format, and what wraps them."""
PIECES = st.one_of(
    st.sampled_from(
        [
            *("=", ":", "-", "--", "[", "]", "{", "}", '"', "'", "\n", "  ", "#", "${", "&a", "*a"),
            *("null", "true", "auto", "-1", "0", "1e999", "9" * 30, "\0", "\ud7ff", "é", "None"),
        ]
    ),
    st.text(max_size=8),
)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """The text with a few stretches of it taken out, doubled, or replaced."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        middle = draw(st.one_of(PIECES, st.just(text[start:end] * 2)))
        text = text[:start] + middle + text[end:]
    return text


@st.composite
def files(draw: st.DrawFn) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(FILES), max_size=3, unique=True))
    return {path: draw(damaged(TEXTS[path])) for path in chosen}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A program, words of files and options, and words of the examples."""
    words = [
        word
        for text in draw(st.lists(st.sampled_from(sorted(TEXTS.values())), max_size=2))
        for word in text.split()[:40]
    ]
    options = draw(st.lists(damaged("--training.seq_len=4096"), max_size=3))
    named = draw(st.lists(st.sampled_from(FILES), max_size=2))
    configs = [each for path in named for each in ("--job.config_file", "--config", path)]
    argv = [draw(st.sampled_from(PROGRAMS)), *configs, *options, *words]
    return [draw(damaged(word)) if draw(st.booleans()) else word for word in argv[:60]]


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    sent=files(),
    argv=st.one_of(st.none(), command_lines(), PIECES),
    wanted=st.sampled_from((None, *get_args(LaunchFormat))),
    version=st.one_of(st.none(), st.sampled_from(("v0.1.0", "0.2.2", "2026-08")), PIECES),
)
def test_what_is_damaged_is_read_or_refused(
    sent: dict[str, str], argv: list[str] | str | None, wanted: str | None, version: str | None
) -> None:
    try:
        launch = launch_of(sent, argv, format=wanted, framework_version=version)
    except ValidationError:
        return
    with within(5), suppress(LaunchError):
        read_launch(launch)


def test_time_goes_with_the_number_of_keys() -> None:
    keys = "".join(f"key{number}: 1\n" for number in range(6000))
    launch = launch_of({"c.yaml": keys}, ["litgpt", "finetune_lora", "--config", "c.yaml"])
    with within(3), suppress(LaunchError):
        read_launch(launch)


SIZED = {"model": {"hf_id": "meta-llama/Llama-2-7b-hf"}, "parallelism": {"num_gpus": 1}}


def test_a_key_below_what_was_none_takes_its_place() -> None:
    words = ["litgpt", "finetune_lora", "a/b", "--config", "c.yaml", "--train.max_seq_length", "8"]
    launch = launch_of({"c.yaml": "train: null\n"}, words, overrides=SIZED)
    found = read(launch)
    assert found.field("/training/seq_length") == 8
    assert "train" in found.irrelevant - found.left_out - found.recognised
