"""What the releases of Megatron-LM take."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.launch.megatron.command_lines import SMALL, read
from trainfit.launch.keys import table_of
from trainfit.launch.megatron.options import MegatronParser, Option, release_of, releases

INSTEAD = {
    "--hybrid-layer-pattern": "--hybrid-layer-pattern M-M*",
    "--hybrid-override-pattern": "--hybrid-override-pattern M-M*",
    "--no-position-embedding": "--no-position-embedding --position-embedding-type rope",
    "--step-batch-size-schedule": "--step-batch-size-schedule 0:8",
}
"""Options that are wrong by themselves, or at the value that others get here."""


def test_every_option_of_every_release_is_in_one_list() -> None:
    for name, shapes in releases().options.items():
        if name == "--yaml-cfg":
            continue
        words = f"{SMALL} {INSTEAD.get(name) or words_of(name, shapes[-1])}"
        account = read(words).launch.account
        assert "no list" not in " ".join(each.why for each in account.unsupported)
        lists = (account.recognised, account.irrelevant, account.unsupported)
        keys = [each.key for told in lists for each in told if each.file == "argv"]
        assert sorted(keys) == sorted(word for word in words.split() if word.startswith("--"))


def words_of(name: str, option: Option) -> str:
    """An option with as many values as it takes."""
    value = option.choices[0] if option.choices else "1"
    count = 1 if isinstance(option.takes, str) else option.takes
    return " ".join((name, *[str(value)] * count))


def test_every_key_of_the_table_is_an_option() -> None:
    assert releases().dests() >= table_of("trainfit.launch.megatron", "options").rows.keys()


def test_the_shapes_of_an_option_follow_one_another() -> None:
    for name, shapes in releases().options.items():
        for one, next_one in pairwise(shapes):
            assert one.until < next_one.since, name


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("core_v0.12.3", "core_v0.12.0"),
        ("core_r0.12.0", "core_v0.12.0"),
        ("v0.12.0rc2", "core_v0.12.0"),
        ("0.12", "core_v0.12.0"),
        ("main", releases().names[-1]),
    ],
)
def test_a_version_is_the_release_that_it_patches(version: str, name: str) -> None:
    assert MegatronParser(release_of(version)).name == f"Megatron-LM {name}"
