"""Depths of multi-token prediction: what they are made as, and weights that all of them run."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.estimator.estimate import estimate
from trainfit.estimator.results import Estimate
from trainfit.questions.estimate import plan_of
from trainfit.resolve.findings import RefusedError
from trainfit.specs.job import Job

SPEC: dict[str, Any] = {
    "num_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "vocab_size": 512,
    "swiglu": True,
    "num_moe_experts": 4,
    "moe_ffn_hidden_size": 128,
    "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
    "add_bias_linear": False,
}


def estimated(
    spec: dict[str, Any], training: dict[str, Any] | None = None, **framework: Any
) -> Estimate:
    job = {
        "model": {"spec": SPEC | spec},
        "parallelism": {"num_gpus": 2, "ep": 2},
        "training": {"seq_length": 512} | (training or {}),
        "framework": {"name": "megatron"} | framework,
    }
    return estimate(plan_of(Job.model_validate(job)))


def of(answer: Estimate, name: str) -> int:
    (stage,) = answer.stages
    return next(each.bytes for each in stage.components if each.name == name)


def test_depths_that_repeat_one_have_its_weights_and_all_activations() -> None:
    """Source: multi_token_prediction.py (mtp_use_repeated_layer: one layer for all depths)."""
    one, two = (estimated({"mtp_num_layers": depths}) for depths in (1, 2))
    repeated = estimated({"mtp_num_layers": 2}, mtp_use_repeated_layer=True)
    assert repeated.model.parameters == one.model.parameters
    for name in ("weights", "gradients", "optimizer_states"):
        assert of(repeated, name) == of(one, name) < of(two, name)
    assert of(repeated, "activations") == of(two, "activations") > of(one, "activations")
    assert repeated.stages[0].reserved_basis == "replayed"


def test_a_model_without_depths_gets_them_as_its_last_layer() -> None:
    """Source: gpt_layer_specs.py (get_gpt_mtp_block_spec: the last layer's spec)."""
    asked = estimated({}, {"mtp": {"num_layers": 1}})
    declared = estimated({"mtp_num_layers": 1})
    assert asked.model == declared.model
    assert asked.stages == declared.stages


def test_a_last_layer_of_one_block_is_no_depth() -> None:
    with pytest.raises(RefusedError, match="no whole one"):
        estimated({"hybrid_layer_pattern": "M*M-"}, {"mtp": {"num_layers": 1}})
