"""A launch that no reader knows, as a draft in words that everyone uses."""

from __future__ import annotations

import pytest

from tests.launch.launches import launch_of
from trainfit.launch.common_words import WORDS, drafted
from trainfit.launch.errors import LaunchError
from trainfit.launch.fields import as_field
from trainfit.launch.read import read_launch

SCRIPT = """LENGTH=4096
srun -n 16 mytrainer --model-name-or-path meta-llama/Llama-3.1-8B --seq_len $LENGTH \\
  --tp-size 2 --micro_batch_size 4 --lora_rank 16 --magic 3 --context_length $UNKNOWN
"""


def test_words_of_a_script_and_of_files_become_a_draft() -> None:
    found = drafted(launch_of({"run.sh": SCRIPT, "sizes.yaml": "trainer:\n  pp_size: 4\n"}))
    assert found.programs == ["mytrainer"]
    assert found.job == {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"tp": 2, "pp": 4},
        "training": {"micro_batch_size": 4, "peft": {"method": "lora", "r": 16}},
    }
    said = {each.key: (each.file, each.line, each.used) for each in found.said}
    assert said["pp_size" if "pp_size" in said else "trainer.pp_size"] == ("sizes.yaml", 2, True)
    assert said["tp_size"][0] == "run.sh"
    assert not said["seq_len"][2]  # the other word for it is not known


def test_what_is_said_in_two_ways_is_told_and_not_taken() -> None:
    found = drafted(launch_of({"a.yaml": "micro_batch_size: 2\n", "b.yaml": "mbs: 1\n"}))
    assert found.job == {"training": {"micro_batch_size": 2}}
    found = drafted(launch_of({"a.yaml": "seq_len: 2\n", "b.yaml": "max_length: 3\n"}))
    assert not found.job
    assert [each.used for each in found.said] == [False, False]


@pytest.mark.parametrize("value", ["many", "-1", "1.5", "[1, 2]", "auto", ""])
def test_a_value_that_the_field_does_not_take_is_not_taken(value: str) -> None:
    assert not drafted(launch_of({"a.yaml": f"micro_batch_size: {value}\n"})).job


def test_words_are_of_fields_that_there_are() -> None:
    for pointer in WORDS:
        as_field(pointer, "org/name" if pointer == "/model/hf_id" else "1")
    names = [name for each in WORDS.values() for name in each]
    assert len(names) == len(set(names))


def test_a_refusal_says_which_program_was_seen() -> None:
    with pytest.raises(LaunchError, match="; it starts mytrainer"):
        read_launch(launch_of({"run.sh": "mytrainer --steps 3"}))
