"""Values of another kind than a key has are refused by their key, or change nothing."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.launch.automodel.test_files import RECIPE
from tests.launch.axolotl.test_ring import CONFIG as RING
from tests.launch.commands.test_functional_tests import TEXT
from tests.launch.launches import DATA, launch_of, read
from tests.launch.megatron.test_neox import LLAMA as NEOX
from tests.launch.test_dora import TORCHTUNE
from trainfit.launch.errors import LaunchError

GPUS = {"parallelism": {"num_gpus": 8}}
ULYSSES = (DATA / "accelerate" / "ulysses.yaml").read_text("utf-8")
VARIABLES = TEXT.partition("ENV_VARS:")[2].partition("MODEL_ARGS:")[0]


@pytest.mark.parametrize(
    ("text", "before", "after", "told"),
    [
        (RECIPE, "tp_size: 2", "tp_size: [1]", "distributed.tp_size: must be"),
        (RING, "dp_shard_size: 2", "dp_shard_size: 0", "dp_shard_size: must be 1 or more"),
        (NEOX, '"intermediate_size": 32768', '"intermediate_size": [1]', "must be a number"),
        (TORCHTUNE, "max_seq_len: 1024", "max_seq_len: [1]", "max_seq_len: must be"),
        (ULYSSES, "sp_size: 2", "sp_size: [1]", "sp_size: must be"),
        (
            RECIPE,
            "packed_sequence:",
            "peft: {dim: 8, target_modules: -1}\npacked_sequence:",
            "peft.target_modules: must be a list of names",
        ),
    ],
)
def test_it_is_refused_by_its_key(text: str, before: str, after: str, told: str) -> None:
    assert before in text
    with pytest.raises(LaunchError, match=told):
        read(launch_of({"a.yaml": text.replace(before, after)}, overrides=GPUS))


@pytest.mark.parametrize("key", ["pos_emb", "norm", "activation"])
def test_a_list_is_no_word(key: str) -> None:
    words = {"pos_emb": "rotary", "norm": "rmsnorm", "activation": "swiglu"}
    text = NEOX.replace(f'"{words[key]}"', "[1]")
    assert key in read(launch_of({"a.yaml": text}, overrides=GPUS)).unsupported


@pytest.mark.parametrize("variables", ["[1]", "5", "x", "true"])
def test_variables_are_a_mapping(variables: str) -> None:
    with suppress(LaunchError):
        read(launch_of({"a.yaml": TEXT.replace(VARIABLES, f" {variables}\n")}, overrides=GPUS))
