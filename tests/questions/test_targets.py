"""Adapters whose targets match nothing."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.questions.python import QuestionError, estimate


def job(targets: list[str], model: str = "meta-llama/Llama-3.1-8B") -> dict[str, Any]:
    return {
        "model": {"hf_id": model},
        "parallelism": {"num_gpus": 1},
        "training": {
            "micro_batch_size": 1,
            "seq_length": 128,
            "peft": {"method": "lora", "r": 16, "target_modules": targets},
        },
        "framework": {"name": "transformers"},
    }


def test_names_of_another_model_are_refused_with_those_of_this_one() -> None:
    with pytest.raises(QuestionError) as refused:
        estimate(job(["to_q", "to_k"]), activations=False)
    (problem,) = refused.value.errors
    assert problem.pointer == "/training/peft/target_modules"
    assert "called to_k, to_q" in problem.message
    assert "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj" in problem.message


def test_one_name_that_matches_is_enough() -> None:
    found = estimate(job(["q_proj", "to_k"]), activations=False)
    # 32 layers of q_proj [4096, 4096] have 16 elements for each row and each column
    assert found.model.parameters.trainable == 32 * 16 * (4096 + 4096)
