"""A command looks at the flags that were typed, and at all where one of them is none."""

from __future__ import annotations

import inspect

import pytest

from tests import counting
from tests.cli.conftest import Run
from trainfit.cli.app import app
from trainfit.cli.flags import flags
from trainfit.cli.mentioned import taking_what_is_typed

WORDS = "estimate gpt2 --seq_length 512 --tp=2 --no-sequence-parallel --num-gpus 2 --json"


def taken() -> set[str]:
    """The flags of a job that `estimate` takes now."""
    command = app["estimate"].default_command
    assert command is not None
    return inspect.signature(command).parameters.keys() & {
        each.keyword for each in flags().values()
    }


def test_flags_that_are_typed_are_taken_and_afterwards_all() -> None:
    every = taken()
    with taking_what_is_typed(app, WORDS.split()):
        assert taken() == {
            "parallelism_tp",
            "parallelism_sequence_parallel",
            "parallelism_num_gpus",
        }
    assert taken() == every
    assert len(every) > 150


def test_another_spelling_of_a_flag_is_understood_among_all(run: Run) -> None:
    assert run(WORDS).out == run(WORDS.replace("_", "-")).out


@pytest.mark.parametrize("words", ["estimate gpt2 --help", "estimate -h"])
def test_the_help_has_flags_that_are_not_typed(run: Run, words: str) -> None:
    assert "--micro-batch-size" in run(words).out


def test_few_flags_cost_little(run: Run) -> None:
    """In calls: less than a quarter of what it takes to find that one of them is none."""

    def calls(words: str) -> int:
        run(words)
        return counting.calls(lambda: run(words), lambda *_: True)

    assert 4 * calls("estimate gpt2 --tp 1 --summary gb") < calls(
        "estimate gpt2 --Tp 1 --summary gb"
    )
