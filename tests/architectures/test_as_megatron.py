"""Models of the Hub in Megatron's argument names."""

from __future__ import annotations

import pytest

from trainfit.architectures.as_megatron import as_transformer_config
from trainfit.architectures.config import ConfigError
from trainfit.questions.dimensions import from_package
from trainfit.questions.estimate import price
from trainfit.specs.job import Job
from trainfit.specs.model import Model

SAID = [
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen2.5-7B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
    "deepseek-ai/DeepSeek-V3",
    "openai-community/gpt2",
    "google/gemma-7b",
]


@pytest.mark.parametrize("hf_id", SAID)
def test_a_model_that_is_said_in_megatron_names_needs_the_same(hf_id: str) -> None:
    spec = as_transformer_config(from_package(Model(hf_id=hf_id)).spec)
    one, other = (price(Job(model=model)) for model in (Model(hf_id=hf_id), Model(spec=spec)))
    assert one.model.parameters == other.model.parameters
    assert [stage.device_bytes for stage in one.stages] == [
        stage.device_bytes for stage in other.stages
    ]


@pytest.mark.parametrize(
    "hf_id",
    ["google/gemma-2-27b", "state-spaces/mamba-2.8b-hf", "Qwen/Qwen2-VL-2B", "bigscience/bloom"],
)
def test_a_model_that_the_names_do_not_say_is_refused(hf_id: str) -> None:
    with pytest.raises(ConfigError, match="do not say this model"):
        as_transformer_config(from_package(Model(hf_id=hf_id)).spec)
