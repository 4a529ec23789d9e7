"""Whatever is sent, a launch is read or refused in words."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tests.launch.launches import launch_of, read
from tests.launch.megatron.command_lines import SMALL
from trainfit.launch.errors import LaunchError
from trainfit.launch.megatron.layer_flags import MAX_LAYERS, layer_flags
from trainfit.launch.megatron.options import releases
from trainfit.specs.launch import Launch

VALUES = st.one_of(
    st.sampled_from(["1", "-1", "0.5", "true", "fp32", "([0]*2+[1]*2)", "(1,0)", "a b", "", "="]),
    st.text(max_size=12).filter(
        lambda text: not any("\ud800" <= sign <= "\udfff" for sign in text)
    ),
)
WORDS = st.one_of(st.sampled_from(sorted(releases().options)), VALUES)
VERSIONS = st.sampled_from([None, "core_v0.5.0", "core_v0.13.0", "main"])


def read_or_refuse(launch: Launch) -> None:
    with suppress(LaunchError):
        read(launch)


@given(st.lists(WORDS, max_size=20), VERSIONS)
def test_any_words(words: list[str], version: str | None) -> None:
    read_or_refuse(
        launch_of(None, ("pretrain_gpt.py", *words, *SMALL.split()), framework_version=version)
    )


FIELDS = ("activation_func", "gated_linear_unit", "grad_reduce_in_fp32", "num_moe_experts")
KEYS = st.sampled_from([*FIELDS, "_target_", *sorted(releases().dests())])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["silu", "bf16", "${.a}", "${multiply:4,${.hidden_size}}", "torch.float32"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.just({"a": {"b": 1}}),
)
SECTIONS = st.sampled_from(
    ["model", "train", "ddp", "optimizer", "trainer", "language_model", "model_parallel", "peft"]
)


@given(st.dictionaries(SECTIONS, st.dictionaries(KEYS, LEAVES, max_size=8), min_size=1))
def test_any_config(config: dict[str, dict[str, object]]) -> None:
    for name in ("megatron_bridge", "megatron_yaml"):
        launch = launch_of({"config.yaml": json.dumps(config)}, format=name)
        read_or_refuse(launch)


@given(st.text(alphabet="[]()*+,01 9", max_size=60))
def test_any_expression_of_layers(words: str) -> None:
    try:
        flags = layer_flags(words)
    except ValueError:
        return
    assert isinstance(flags, int) or len(flags) <= MAX_LAYERS


def test_an_expression_does_not_grow_without_bound() -> None:
    for words in ("[1]*999999999999", "(" * 900 + "[1]" + ")" * 900, "[1]*9*9*9*9*9*9", "2*[1]*2"):
        try:
            flags = layer_flags(words)
        except ValueError:
            continue
        assert isinstance(flags, list)
        assert len(flags) <= MAX_LAYERS


OVERRIDES = st.one_of(
    st.sampled_from(
        [
            "++train.micro_batch_size=",
            "--config-name",
            "--hf-path",
            "-mb",
            "mixed_precision=fp8",
            "model.num_layers=4",
            "model.seq_length=${.a}",
            "model.tensor_model_parallel_size=[1]",
            "trainer.devices=8",
            "trainer.num_nodes=0",
            "~model.x",
        ]
    ),
    VALUES,
)


@given(st.lists(OVERRIDES, max_size=12))
def test_any_overrides(words: list[str]) -> None:
    read_or_refuse(launch_of(None, ("run_recipe.py", *words), format="megatron_bridge"))
