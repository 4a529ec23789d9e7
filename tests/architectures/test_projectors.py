"""Projectors beside the towers that feed them."""

from __future__ import annotations

import pytest

from trainfit.architectures.registry import parse_config


@pytest.mark.parametrize(
    ("model_type", "projector"),
    [
        ("gemma3", 1_770_240),
        ("internvl", 33_570_816),
        ("llama4", 39_321_600),
        ("llava", 20_979_712),
        ("mistral3", 35_652_608),
        ("paligemma", 2_361_344),
        ("qwen2_5_vl", 256_922_624),
        ("qwen2_vl", 44_575_744),
        ("qwen3_vl", 37_759_232),
        ("qwen3_vl_moe", 37_759_232),
    ],
)
def test_parameters_of_projectors_are_those_that_transformers_builds(
    model_type: str, projector: int
) -> None:
    """By default sizes; of multi_modal_projector, or of visual.merger."""
    spec = parse_config({"model_type": model_type})
    assert spec.projector_parameters == projector
    assert projector < spec.encoder_parameters
