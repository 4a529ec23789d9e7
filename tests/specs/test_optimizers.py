"""An optimizer is one record, and everything follows from it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from trainfit.questions.estimate import answer
from trainfit.specs.job import Job
from trainfit.specs.optimizers import (
    IN_4_BITS,
    IN_8_BITS,
    OPTIMIZERS,
    LaunchFormat,
    OptimizerName,
    choices,
)

PARAMETERS = 8_030_261_248
"""Of Llama-3.1-8B."""
EMBEDDING = 128_256 * 4096
BF16 = 2


def test_every_name_has_a_record() -> None:
    assert set(get_args(OptimizerName)) == set(OPTIMIZERS)
    narrow = {each.in_8_bits for each in OPTIMIZERS.values()} - {None}
    assert narrow == {name for name, each in OPTIMIZERS.items() if each.of_bitsandbytes}


@pytest.mark.parametrize("launch", get_args(LaunchFormat))
def test_no_word_of_a_format_means_two_optimizers(launch: LaunchFormat) -> None:
    words = [each.word for record in OPTIMIZERS.values() for each in record.called.get(launch, ())]
    assert len(words) == len(set(words)) == len(choices(launch)) > 0


@pytest.mark.parametrize(
    ("name", "per_parameter"),
    [
        ("adam", 2 * BF16),
        ("adamw8bit", 2 * IN_8_BITS),
        ("torchao_adamw8bit", 2 * IN_8_BITS),
        ("torchao_adamw4bit", 2 * IN_4_BITS),
        ("adafactor", 0),
        ("lion", BF16),
        ("lion8bit", IN_8_BITS),
        ("sgd", 0),
    ],
)
def test_moments_under_transformers(name: str, per_parameter: float) -> None:
    found = states_bytes({"name": name, "embedding_moments_in_fp32": False})
    assert found == pytest.approx(per_parameter * PARAMETERS, abs=1e6)


@pytest.mark.parametrize(
    ("name", "moments"), [("adamw8bit", 2), ("lion8bit", 1), ("torchao_adamw8bit", 0)]
)
def test_trainer_has_bitsandbytes_keep_moments_of_embeddings_in_fp32(
    name: str, moments: int
) -> None:
    wider = states_bytes({"name": name})
    alike = states_bytes({"name": name, "embedding_moments_in_fp32": False})
    assert wider - alike == moments * (4 - IN_8_BITS) * EMBEDDING


def test_deepspeed_steps_other_parameters_than_the_embedding_that_trainer_names() -> None:
    engine = {"data_parallel_engine": "deepspeed"}
    alike = states_bytes({"name": "adamw8bit", "embedding_moments_in_fp32": False}, **engine)
    assert states_bytes({"name": "adamw8bit"}, **engine) == alike


def states_bytes(optimizer: dict[str, Any], **framework: Any) -> int:
    job = {
        "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
        "parallelism": {"num_gpus": 1},
        "training": {"precision": "bf16-pure", "optimizer": optimizer},
        "framework": {"name": "transformers"} | framework,
    }
    (stage,) = answer(Job.model_validate(job)).stages
    (states,) = [each for each in stage.components if each.name == "optimizer_states"]
    return states.bytes
