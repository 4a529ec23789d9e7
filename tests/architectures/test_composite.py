"""Composite types: towers to the digit, and what the outer config and its sections decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainfit.architectures.config import ConfigError, UnsupportedModelTypeError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters
from trainfit.specs.architecture import ModelSpec

ROWS = Path(__file__).parents[1] / "data" / "composite_counts.jsonl"
TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 301,
}


def composite(model_type: str, text: dict[str, Any] | None = None, **outer: Any) -> ModelSpec:
    return parse_config(
        {"model_type": model_type, "text_config": {**TEXT, **(text or {})}, **outer}
    )


def test_counts_of_changed_towers() -> None:
    """Totals that transformers builds, for every type that it can build."""
    wrong = []
    for line in ROWS.read_text().splitlines():
        row = json.loads(line)
        counts = count_parameters(parse_config(row["config_json"]))
        if counts.total != row["total"]:
            wrong.append((row["config_json"]["model_type"], counts.total, row["total"]))
    assert not wrong


@pytest.mark.parametrize(
    ("layers", "ffn", "published"),
    [(35, 16384, 7_849_978_192), (30, 8192, 5_439_438_272)],
)
def test_gemma3n_is_what_google_publishes(layers: int, ffn: int, published: int) -> None:
    """The checkpoints of E4B and E2B keep key and value weights of layers that share others'."""
    shared = 15 if layers == 35 else 10
    text = {
        "num_hidden_layers": layers,
        "intermediate_size": ffn,
        "num_kv_shared_layers": shared,
    }
    counts = count_parameters(parse_config({"model_type": "gemma3n", "text_config": text}))
    unused = shared * (2 * 2048 * 512 + 256)
    assert counts.total + unused == published


@pytest.mark.parametrize(
    ("model_type", "outer", "inner", "tied"),
    [
        ("mistral3", None, None, True),
        ("mistral3", False, True, False),
        ("llava", None, True, True),
        ("llava", False, True, True),
        ("llava_next", None, True, False),
        ("idefics3", None, True, False),
        ("qwen2_vl", None, True, True),
        ("qwen3_vl", None, True, False),
        ("mllama", True, True, False),
        ("llama4", True, None, False),
        ("llama4", None, True, True),
    ],
)
def test_who_ties_the_head(
    model_type: str, outer: bool | None, inner: bool | None, tied: bool
) -> None:
    text = {} if inner is None else {"tie_word_embeddings": inner}
    keys = {} if outer is None else {"tie_word_embeddings": outer}
    assert composite(model_type, text, **keys).output_layer.tied is tied


def test_a_config_of_version_4_leaves_the_tie_to_its_text() -> None:
    """Mistral Small 3.1 says nothing outside and is not tied; Ministral 3 says so inside."""
    assert not composite("mistral3", transformers_version="4.50.0").output_layer.tied
    text = {"model_type": "ministral3", "tie_word_embeddings": True}
    assert composite("mistral3", text, transformers_version="4.57.1").output_layer.tied
    assert composite("mistral3", transformers_version="5.0.0").output_layer.tied


def test_text_keys_beside_the_sections() -> None:
    flat = parse_config({"model_type": "qwen2_vl", **TEXT})
    assert flat == composite("qwen2_vl")
    assert flat.model_type == "qwen2_vl"


def test_a_class_of_its_own_ignores_the_section_type() -> None:
    named = composite("gemma3", {"model_type": "gemma2"})
    assert named == composite("gemma3", {"model_type": "gemma3_text"})


def test_kimi_k2_is_a_text_section() -> None:
    text = {"model_type": "kimi_k2", "moe_intermediate_size": 32, "n_routed_experts": 4}
    published = composite("kimi_k25", text, vision_config={"vt_num_hidden_layers": 3})
    renamed = composite("kimi_k25", text, vision_config={"num_hidden_layers": 3})
    assert published.encoder_parameters == renamed.encoder_parameters


def test_internvl_as_it_is_published_is_that_of_transformers() -> None:
    outer = {"vision_config": {"attention_bias": True, "num_attention_heads": 16}}
    given = {"qkv_bias": True, "qk_normalization": False, "norm_type": "layer_norm"}
    given |= {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    given |= {"num_attention_heads": 16, "image_size": 448}
    text = {**TEXT, "model_type": "qwen2", "tie_word_embeddings": True}
    config = {"model_type": "internvl_chat", "llm_config": text, "vision_config": given}
    spec = parse_config(config)
    known = composite("internvl", text, tie_word_embeddings=False, **outer)
    assert (spec.encoder_parameters, spec.encoder) == (known.encoder_parameters, known.encoder)
    assert not spec.output_layer.tied
    earlier = parse_config({**config, "select_layer": -4, "force_image_size": 224})
    assert earlier.encoder_parameters == spec.encoder_parameters
    assert earlier.encoder is not None
    read = earlier.encoder.num_layers, earlier.encoder.unread_layers, earlier.encoder.image_patches
    assert read == (21, 3, 16 * 16)
    with pytest.raises(ConfigError, match="/llm_config/vocab_size"):
        parse_config({**config, "llm_config": {**text, "vocab_size": "many"}})


def test_gemma4_without_towers() -> None:
    text = {"head_dim": 16, "global_head_dim": 16, "hidden_size_per_layer_input": 0}
    blind = composite("gemma4", text, vision_config=None, audio_config=None)
    assert blind.encoder_parameters == 0
    assert composite("gemma4", text, vision_config={}).encoder_parameters > 0


def test_a_null_section_is_what_the_class_builds() -> None:
    assert composite("llava", vision_config=None) == composite("llava")


def test_an_embedding_may_have_more_rows_than_the_head() -> None:
    spec = composite("mllama")
    assert (spec.embedding.rows, spec.output_layer.rows) == (301 + 8, 301)


def test_positions_that_are_never_trained() -> None:
    spec = composite("qwen2_audio")
    counts = count_parameters(spec)
    assert spec.encoder_frozen_parameters == 1500 * 1280
    assert counts.total - counts.trainable == 1500 * 1280


def test_a_composite_may_classify() -> None:
    spec = composite("gemma3", architectures=["Gemma3ForSequenceClassification"], num_labels=3)
    assert spec.output_layer.scores_labels
    assert spec.output_layer.rows == 3


def test_an_unknown_tower_is_refused() -> None:
    with pytest.raises(UnsupportedModelTypeError, match="timm_wrapper"):
        composite("llava", vision_config={"model_type": "timm_wrapper"})
    with pytest.raises(ConfigError, match="architecture"):
        parse_config({"model_type": "gemma3n", "vision_config": {"architecture": "resnet50"}})


def test_an_unknown_text_is_refused() -> None:
    with pytest.raises(UnsupportedModelTypeError, match="t5") as caught:
        composite("blip-2", {"model_type": "t5"})
    assert caught.value.key == "/text_config/model_type"


def test_a_composite_is_no_text() -> None:
    with pytest.raises(ConfigError, match="text model"):
        composite("llava", {"model_type": "gemma3"})


def test_sections_do_not_nest_without_end() -> None:
    config: dict[str, Any] = {"model_type": "llava"}
    for _ in range(200):
        config = {"model_type": "llava", "text_config": config}
    with pytest.raises(ConfigError, match="nested"):
        parse_config(config)


@pytest.mark.parametrize(
    ("vision", "pointer"),
    [
        ({"hidden_size": -1}, "/vision_config/hidden_size"),
        ({"hidden_size": 10**12}, "/vision_config/hidden_size"),
        ({"num_hidden_layers": None}, "/vision_config/num_hidden_layers"),
        ({"patch_size": [1, 2, 3]}, "/vision_config/patch_size"),
        ({"vision_use_head": 1}, "/vision_config/vision_use_head"),
        ([], "/vision_config"),
    ],
)
def test_refused_tower_values(vision: Any, pointer: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"model_type": "gemma3", "vision_config": vision})
    assert caught.value.key == pointer
