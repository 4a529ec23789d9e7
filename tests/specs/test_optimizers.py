"""An optimizer is one record, and everything follows from it."""

from __future__ import annotations

from typing import get_args

import pytest

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job
from trainfit.specs.optimizers import (
    IN_8_BITS,
    OPTIMIZERS,
    LaunchFormat,
    OptimizerName,
    choices,
)

PARAMETERS = 8_030_261_248
"""Of Llama-3.1-8B."""
BF16 = 2


def test_every_name_has_a_record() -> None:
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)
    narrow = {each.in_8_bits for each in OPTIMIZERS.values()} - {None}
    assert narrow == {name for name, each in OPTIMIZERS.items() if each.moment_bytes is not None}


@pytest.mark.parametrize("launch", get_args(LaunchFormat))
def test_no_word_of_a_format_means_two_optimizers(launch: LaunchFormat) -> None:
    words = [each.word for record in OPTIMIZERS.values() for each in record.called.get(launch, ())]
    assert len(words) == len(set(words)) == len(choices(launch)) > 0


@pytest.mark.parametrize(
    ("name", "per_parameter"),
    [
        ("adam", 2 * BF16),
        ("adamw8bit", 2 * IN_8_BITS),
        ("adafactor", 0),
        ("lion", BF16),
        ("lion8bit", IN_8_BITS),
        ("sgd", 0),
    ],
)
def test_moments_under_transformers(name: str, per_parameter: float) -> None:
    job = {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"num_gpus": 1},
        "training": {"precision": "bf16-pure", "optimizer": {"name": name}},
        "framework": {"name": "transformers"},
    }
    (stage,) = answer(Job.model_validate(job)).stages
    (optimizer,) = [each for each in stage.components if each.name == "optimizer_states"]
    assert optimizer.bytes == pytest.approx(per_parameter * PARAMETERS, abs=1e6)
