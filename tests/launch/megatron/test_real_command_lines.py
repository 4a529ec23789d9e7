"""Command lines of public scripts, and what becomes of them with a key changed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.launch.launches import DATA, Read, launch_of, read
from trainfit.launch.errors import LaunchError
from trainfit.launch.megatron.options import releases
from trainfit.specs.job import Job

FOLDER = DATA / "megatron"
RENAMED = "-renamed"
OVERRIDES: dict[str, Any] = {
    "model": {"spec": {"vocab_size": 32000}},
    "parallelism": {"num_gpus": 128},
}


def words_of(name: str) -> tuple[str, ...]:
    return tuple(shlex.split((FOLDER / f"{name}.args").read_text(), comments=True))


def read_words(words: tuple[str, ...], **others: Any) -> Read:
    return read(launch_of(None, ("pretrain_gpt.py", *words), overrides=OVERRIDES, **others))


@pytest.mark.parametrize(
    ("name", "unsupported"),
    [
        ("gpt3_175b", set()),
        ("mixtral_8x7b", set()),
        ("llama3_8b_fp8", set()),
        ("llama3_8b_fsdp", set()),
        ("deepseek_v2_lite", set()),
        ("qwen3_30b_a3b", set()),
        ("gpt_oss_20b", set()),
        ("pai_qwen2_5_7b", set()),
        ("mamba_hybrid_800m", set()),
    ],
)
def test_a_public_command_line_is_read_to_its_last_word(name: str, unsupported: set[str]) -> None:
    words = words_of(name)
    found = read_words(words)
    assert found.unsupported == unsupported
    options = {word for word in words if word.startswith("--")}
    assert found.recognised | found.irrelevant | found.left_out == options
    Job.model_validate(found.job)


def test_what_a_script_of_mixtral_says() -> None:
    found = read_words(words_of("mixtral_8x7b"))
    assert found.field("/model/spec/num_moe_experts") == 8
    assert found.field("/model/spec/num_query_groups") == 8
    assert found.field("/training/moe/token_dispatcher_type") == "alltoall"
    assert found.field("/parallelism/sequence_parallel") is False, "there is no tensor parallelism"
    assert found.field("/parallelism/data_parallel_sharding_strategy") == "optim"
    assert found.defaulted["/training/moe/permute_fusion"] is False
    assert found.defaulted["/framework/create_attention_mask_in_dataloader"] is True


@pytest.mark.parametrize("name", ["gpt3_175b", "mixtral_8x7b", "llama3_8b_fp8", "deepseek_v2_lite"])
def test_no_word_that_decides_goes_unnoticed(name: str) -> None:
    """Without an option a field changes, has a default or is demanded, or another option says the
    same; under another name it is unsupported.
    """
    words = words_of(name)
    before = read_words(words)
    keys = [each for each in before.account.recognised if each.became]
    assert len(keys) >= 10
    for key in keys:
        start = words.index(key.key)
        end = next(
            (place for place in range(start + 1, len(words)) if words[place].startswith("--")),
            len(words),
        )
        renamed = (*words[:start], key.key + RENAMED, *words[start + 1 :])
        assert key.key + RENAMED in unsupported_or_demanded(renamed, key.key + RENAMED)
        try:
            after = read_words(words[:start] + words[end:])
        except LaunchError:
            continue
        for became in key.became:
            pointer = became.pointer
            told = [
                each
                for each in after.account.recognised
                for field in each.became
                if field.pointer == pointer
            ]
            changed = after.field(pointer) != before.field(pointer)
            overridden = pointer == "/model/spec/vocab_size"
            assert changed or told or pointer in after.defaulted or overridden, (key.key, pointer)


def unsupported_or_demanded(words: tuple[str, ...], key: str) -> set[str]:
    try:
        return read_words(words).unsupported
    except LaunchError:
        return {key}


def test_an_older_release_takes_an_older_command_line() -> None:
    found = read_words(words_of("gpt3_175b"), framework_version="core_v0.12.0")
    assert not found.unsupported
    later = read_words(words_of("gpt3_175b"), framework_version="core_v0.5.0")
    assert later.unsupported == {"--attention-backend", "--use-mcore-models"}
    assert "came with core_v0.11.0" in later.account.unsupported[0].why


def test_every_release_is_known() -> None:
    assert len(releases().names) == 16
