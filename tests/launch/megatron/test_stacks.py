"""Whose speed a launch means: that of its format, which no memory follows from."""

from __future__ import annotations

import pytest

from tests.launch.launches import DATA, launch_of, read
from trainfit.catalog.speed import stacks
from trainfit.launch.megatron.stacks import (
    LATEST_BRIDGE,
    MEGATRON_DEEPSPEED,
    NEMO,
    OF_BRIDGES,
    bridges,
)

STACK = "/speed/stack"
RECIPE = "llama3_8b_pretrain_config"


@pytest.mark.parametrize(
    ("release", "stack"),
    [
        ("0.2.0", "megatron-bridge-25"),
        ("v0.3.1", "megatron-bridge"),
        ("0.4.2", "megatron-bridge"),
        ("0.5.1", "megatron-bridge-26.06"),
        ("main", "megatron-bridge-26.06"),
        (None, "megatron-bridge-26.06"),
    ],
)
def test_a_release_of_the_bridge_is_in_a_container(release: str | None, stack: str) -> None:
    assert bridges(release) == stack


def test_recipes_mean_their_own_release() -> None:
    words = ("run_recipe.py", "--recipe", RECIPE)
    gpus = {"parallelism": {"num_gpus": 8}}
    old = read(launch_of(None, words, overrides=gpus, framework_version="0.3.1"))
    assert old.field(STACK) == "megatron-bridge"
    latest = read(launch_of(None, words, overrides=gpus))
    assert latest.field(STACK) == "megatron-bridge-26.06"
    assert latest.defaulted[STACK] == "megatron-bridge-26.06"


def test_configs_of_nemo_mean_its_own() -> None:
    path = "megatron_bridge/nemo_llama2_7b.yaml"
    found = read(launch_of({"llama.yaml": (DATA / path).read_text("utf-8")}, overrides=ROWS))
    assert found.field(STACK) == NEMO


ROWS = {"model": {"spec": {"vocab_size": 32000}}, "parallelism": {"num_gpus": 16}}


def test_megatron_lms_own_is_not_said() -> None:
    lines = (DATA / "megatron/llama3_8b_fp8.args").read_text("utf-8").splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    found = read(launch_of(None, ("pretrain_gpt.py", *words), overrides=ROWS))
    assert found.field("/framework/name") == "megatron"
    assert found.field(STACK) is None


def test_the_catalogue_has_each() -> None:
    names = {stack for _, stack in OF_BRIDGES} | {LATEST_BRIDGE, NEMO, MEGATRON_DEEPSPEED}
    assert {stacks()[name].framework for name in names} == {"megatron"}
