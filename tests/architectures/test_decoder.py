"""What a config.json says beyond its layers: the output layer and how large it may be."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
}
REWARD = {**LLAMA, "architectures": ["LlamaForSequenceClassification"]}


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ({"id2label": {"0": "LABEL_0"}}, 1),
        ({"num_labels": 5}, 5),
        ({"id2label": {"0": "good"}, "num_labels": 5}, 1),
        ({}, 2),
    ],
)
def test_a_reward_model_scores_labels(labels: dict[str, Any], rows: int) -> None:
    counts = count_parameters(parse_config({**REWARD, **labels}))
    assert counts.outside_layers["other"] == rows * 64
    assert "output_layer" not in counts.outside_layers


def test_a_config_without_sizes_is_its_class_without_arguments() -> None:
    spec = parse_config({"model_type": "llama"})
    assert (spec.num_layers, spec.hidden_size, spec.output_layer.rows) == (32, 4096, 32000)


@pytest.mark.parametrize("layers", [0, -1, 2049, 10**9, None, "2", True])
def test_layers_are_bounded(layers: object) -> None:
    with pytest.raises(ConfigError, match="num_hidden_layers"):
        parse_config({**LLAMA, "num_hidden_layers": layers})


def test_heads_that_do_not_share_out_the_hidden_size_are_refused() -> None:
    with pytest.raises(ConfigError, match="must divide hidden_size"):
        parse_config({"model_type": "gpt2", "n_embd": 64, "n_head": 5})
