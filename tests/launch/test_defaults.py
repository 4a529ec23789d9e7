"""Which defaults an account tells of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.launch.launches import Read, launch_of, read
from tests.launch.megatron.command_lines import SMALL

SHARING = "/parallelism/data_parallel_sharding_strategy"


def small(overrides: dict[str, Any]) -> Read:
    words = ("pretrain_gpt.py", *SMALL.split())
    return read(launch_of(None, words, env={"WORLD_SIZE": "8"}, overrides=overrides))


def test_a_default_that_holds_is_told() -> None:
    assert small({}).defaulted[SHARING] == "no_shard"
    assert small({"parallelism": {"cp": 2}}).defaulted[SHARING] == "no_shard"


@pytest.mark.parametrize(
    ("overrides", "pointer"),
    [
        ({"parallelism": {"data_parallel_sharding_strategy": "optim"}}, SHARING),
        ({"parallelism": {"data_parallel_sharding_strategy": None}}, SHARING),
        ({"parallelism": None}, SHARING),
        ({"framework": {"name": "megatron"}}, "/framework/name"),
        ({"training": {"attention": {"dropout": 0.0}}}, "/training/attention/dropout"),
    ],
)
def test_a_default_that_an_override_replaces_is_not_told(
    overrides: dict[str, Any], pointer: str
) -> None:
    assert pointer in small({}).defaulted
    assert pointer not in small(overrides).defaulted


def test_every_default_that_is_told_stands_in_the_job() -> None:
    found = small({"training": {"hidden_dropout": 0.3, "attention": None}, "model": {}})
    assert "/training/seq_length" not in found.defaulted
    assert found.defaulted
    for pointer, value in found.defaulted.items():
        assert found.field(pointer) == value


def test_a_path_is_the_bundled_model_of_its_last_name() -> None:
    found = read(
        launch_of(
            argv=[
                *["python", "sft.py", "--output_dir", "o", "--model_name_or_path"],
                "/models/Llama-2-7b-hf/",
            ]
        )
    )
    assert found.field("/model/hf_id") == "meta-llama/Llama-2-7b-hf"
    assert "/model/hf_id" in found.defaulted
    config = '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64}'
    files = {"/models/Llama-2-7b-hf/config.json": config}
    sent = read(
        launch_of(
            files,
            [
                *["python", "sft.py", "--output_dir", "o", "--model_name_or_path"],
                "/models/Llama-2-7b-hf/",
            ],
        )
    )
    assert sent.field("/model/hf_config/hidden_size") == 64
