"""A bound of the parameters of models that lie beside the one that is trained."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config, bundled_ids
from trainfit.estimator.parameters import count_parameters
from trainfit.launch.draft import Draft
from trainfit.launch.models import most_parameters

LLAMA = "meta-llama/Llama-3.1-8B"


def most(model: dict[str, Any]) -> int | None:
    return most_parameters(Draft(overrides={"model": model}))


def test_no_bundled_model_has_more() -> None:
    bounds = {hf_id: most({"hf_id": hf_id}) for hf_id in bundled_ids()}
    known = {hf_id: bound for hf_id, bound in bounds.items() if bound is not None}
    assert len(known) > 300
    for hf_id, bound in known.items():
        bundled = bundled_config(hf_id)
        assert bundled is not None
        assert count_parameters(parse_config(bundled.config)).total <= bound, hf_id


@pytest.mark.parametrize(
    "hf_id",
    ["Qwen/Qwen2.5-VL-7B-Instruct", "tiiuae/Falcon-H1-34B-Base", "MiniMaxAI/MiniMax-M1-80k"],
)
def test_of_a_model_that_is_no_plain_decoder_nothing_is_known(hf_id: str) -> None:
    assert most({"hf_id": hf_id}) is None


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_key_value_heads"])
@pytest.mark.parametrize("value", [[1], {"a": 1}, "x", None])
def test_a_size_of_another_kind_is_none(key: str, value: Any) -> None:
    bundled = bundled_config(LLAMA)
    assert bundled is not None
    bound = most({"hf_config": {**bundled.config, key: value}})
    assert bound is None if key != "num_key_value_heads" else bound is not None
