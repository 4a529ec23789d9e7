"""Which layers see a window only: by the list of layer types, or by the class's own rule."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.specs.blocks import Attention


def attentions(config: dict[str, Any]) -> list[Attention]:
    """The attention of each layer, in order."""
    spec = parse_config({"num_hidden_layers": 8, **config})
    blocks = [spec.layer_kinds[kind].sublayers[0].blocks[0] for kind in spec.pattern]
    return [block for block in blocks if isinstance(block, Attention)]


def windows(config: dict[str, Any]) -> list[int | None]:
    return [each.window for each in attentions(config)]


S, F = "sliding_attention", "full_attention"
ALTERNATING = [S, F] * 4


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "mistral"}, [4096] * 8),
        ({"model_type": "mistral", "sliding_window": None}, [None] * 8),
        ({"model_type": "mistral", "layer_types": ALTERNATING}, [4096] * 8),
        ({"model_type": "ministral", "layer_types": ALTERNATING}, [4096, None] * 4),
        ({"model_type": "qwen2", "layer_types": ALTERNATING}, [None] * 8),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "max_window_layers": 6},
            [None] * 6 + [4096] * 2,
        ),
        ({"model_type": "gemma2"}, [4096, None] * 4),
        ({"model_type": "gemma3_text", "sliding_window": 512}, [512] * 5 + [None, 512, 512]),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 2}, [4096, None] * 4),
        ({"model_type": "cohere2", "layer_types": ALTERNATING}, [4096, None] * 4),
        ({"model_type": "cohere_compass_text"}, [None] * 8),
        ({"model_type": "olmo3"}, [4096, 4096, 4096, None] * 2),
        ({"model_type": "cwm"}, [None, 8192, 8192, 8192] * 2),
        ({"model_type": "exaone4", "sliding_window": None}, [None] * 8),
        ({"model_type": "exaone4", "sliding_window_pattern": "LG"}, [4096, None] * 4),
        ({"model_type": "modernbert-decoder", "local_attention": None}, [None] * 8),
        ({"model_type": "modernbert-decoder"}, [None, 64, 64, None, 64, 64, None, 64]),
        ({"model_type": "gpt_neo", "attention_types": [[["global", "local"], 4]]}, [None, 256] * 4),
    ],
)
def test_windows(config: dict[str, Any], expected: list[int | None]) -> None:
    assert windows(config) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "smollm3"}, [True, True, True, False] * 2),
        ({"model_type": "smollm3", "no_rope_layers": [0, 1] * 4}, [False, True] * 4),
        ({"model_type": "cohere2"}, [True, True, True, False] * 2),
        ({"model_type": "exaone4"}, [True, True, True, False] * 2),
        ({"model_type": "exaone4", "sliding_window": None}, [True] * 8),
        ({"model_type": "granite_swa", "layer_rope_theta": [0, 1e4] * 4}, [False, True] * 4),
    ],
)
def test_layers_without_rotary_positions(config: dict[str, Any], expected: list[bool]) -> None:
    assert [each.rope for each in attentions(config)] == expected


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "gemma2", "layer_types": [S] * 7}, "layer_types"),
        ({"model_type": "gemma2", "layer_types": ["chunked_attention"] * 8}, "layer_types"),
        ({"model_type": "gemma2", "layer_types": S}, "layer_types"),
        ({"model_type": "smollm3", "no_rope_layers": [1] * 7}, "no_rope_layers"),
        ({"model_type": "granite_swa", "layer_rope_theta": [1e4] * 7}, "layer_rope_theta"),
        ({"model_type": "gpt_neo", "attention_types": [[["global"], 7]]}, "attention_types"),
        ({"model_type": "gpt_neo", "attention_types": [[["nearby"], 8]]}, "attention_types"),
        ({"model_type": "gpt_neo", "attention_types": [[["global"], 10**9]]}, "attention_types"),
        ({"model_type": "gpt_neo", "attention_types": ["global"] * 8}, "attention_types"),
    ],
)
def test_lists_that_do_not_fit_the_layers_are_refused(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({"num_hidden_layers": 8, **config})
    assert error.value.key == f"/{key}"
