"""Keys of mixture-of-experts and latent-attention decoders that counts alone do not show."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts, LatentAttention, Mlp

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 40,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
DEEPSEEK = {**SMALL, "n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1}


def blocks(spec: ModelSpec) -> list[list[Block]]:
    """The blocks of each layer, in order."""
    layers = [spec.layer_kinds[kind] for kind in spec.pattern]
    return [[block for part in layer.sublayers for block in part.blocks] for layer in layers]


def sparse(config: dict[str, Any]) -> list[bool]:
    """Whether each layer has experts."""
    return [any(isinstance(b, Experts) for b in layer) for layer in blocks(parse_config(config))]


def experts(config: dict[str, Any]) -> list[Experts]:
    spec = parse_config(config)
    return [block for layer in blocks(spec) for block in layer if isinstance(block, Experts)]


def latent(config: dict[str, Any]) -> list[LatentAttention]:
    spec = parse_config(config)
    return [b for layer in blocks(spec) for b in layer if isinstance(b, LatentAttention)]


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3", "kimi_k2"])
def test_a_null_query_rank_is_not_an_absent_one(model_type: str) -> None:
    config = {**DEEPSEEK, "model_type": model_type}
    assert latent(config)[0].q_lora_rank == 1536
    assert latent({**config, "q_lora_rank": None})[0].q_lora_rank is None


@pytest.mark.parametrize("model_type", ["deepseek_v32", "glm_moe_dsa", "hy_v4", "axk2"])
def test_an_indexer_needs_the_query_latent(model_type: str) -> None:
    with pytest.raises(ConfigError, match="q_lora_rank"):
        parse_config({**DEEPSEEK, "model_type": model_type, "q_lora_rank": None})


def test_deepseek_v1_strides_its_experts_and_may_have_none() -> None:
    config = {**DEEPSEEK, "model_type": "deepseek", "first_k_dense_replace": 1}
    assert sparse(config) == [False, True, True, True]
    assert sparse({**config, "moe_layer_freq": 2}) == [False, False, True, False]
    assert sparse({**config, "n_routed_experts": None}) == [False] * 4
    [first, *_] = experts({**config, "n_shared_experts": None})
    assert first.shared_ffn is None


@pytest.mark.parametrize("model_type", ["deepseek_v2", "dots1"])
def test_routing_to_an_unknown_number_of_experts_is_refused(model_type: str) -> None:
    config = {key: value for key, value in DEEPSEEK.items() if key != "num_experts_per_tok"}
    with pytest.raises(ConfigError, match="num_experts_per_tok"):
        parse_config({**config, "model_type": model_type})


def test_bailing_biases_norms_and_shared_width() -> None:
    config = {
        **SMALL,
        "model_type": "bailing_moe",
        "intermediate_size": None,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 2,
        "use_bias": False,
    }
    [attention, block] = blocks(parse_config(config))[0]
    assert isinstance(attention, Attention)
    assert isinstance(block, Experts)
    assert (attention.qkv_bias, attention.out_bias, attention.q_norm) == (False, False, None)
    assert block.shared_ffn == 2 * 40
    changes = {"use_qkv_bias": True, "use_qk_norm": True, "moe_shared_expert_intermediate_size": 24}
    [attention, block] = blocks(parse_config({**config, **changes}))[0]
    assert isinstance(attention, Attention)
    assert isinstance(block, Experts)
    assert (attention.qkv_bias, attention.out_bias) == (True, False)
    assert attention.q_norm is not None
    assert block.shared_ffn == 2 * 24


def test_qwen_layers_without_experts() -> None:
    config = {**SMALL, "model_type": "qwen3_moe"}
    assert sparse({**config, "decoder_sparse_step": 2}) == [False, True, False, True]
    assert sparse({**config, "mlp_only_layers": [1, 99]}) == [True, False, True, True]
    assert sparse({**config, "num_experts": 0}) == [False] * 4
    assert sparse({**config, "model_type": "flint"}) == [False, False, True, True]
    assert sparse({**config, "model_type": "flint", "mlp_only_layers": []}) == [True] * 4


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "llama4_text", "interleave_moe_layer_step": 2}, [0, 1, 0, 1]),
        ({"model_type": "llama4_text", "moe_layers": [0, 3]}, [1, 0, 0, 1]),
        ({"model_type": "ernie4_5_moe", "moe_layer_end_index": 2}, [0, 1, 1, 0]),
        ({"model_type": "ernie4_5_moe", "moe_layer_interval": 2}, [0, 1, 0, 1]),
        ({"model_type": "axk1", "moe_layer_freq": 3}, [0, 0, 0, 1]),
        ({"model_type": "dots3_note_text", "moe_layer_freq": [1, 0, 1, 1]}, [0, 0, 1, 1]),
        ({"model_type": "minimax_m3_vl_text", "moe_layer_freq": [0, 1, 1, 0]}, [0, 1, 1, 0]),
        ({"model_type": "cohere2_moe", "first_k_dense_replace": 3}, [0, 0, 0, 1]),
        ({"model_type": "hy_v3", "mlp_layer_types": ["sparse"] * 3 + ["dense"]}, [1, 1, 1, 0]),
    ],
)
def test_which_layers_have_experts(config: dict[str, Any], expected: list[int]) -> None:
    assert sparse({"num_hidden_layers": 4, **config}) == [bool(each) for each in expected]


def test_names_past_the_last_layer_are_cut_off() -> None:
    config = {**DEEPSEEK, "model_type": "glm4_moe_lite"}
    assert sparse({**config, "mlp_layer_types": ["dense"] * 5}) == [False] * 4


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "glm4_moe_lite", "mlp_layer_types": ["dense"] * 3}, "mlp_layer_types"),
        ({"model_type": "glm4_moe_lite", "mlp_layer_types": ["x"] * 4}, "mlp_layer_types"),
        ({"model_type": "minimax", "layer_types": ["sliding_attention"] * 4}, "layer_types"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": ["1"]}, "mlp_only_layers"),
        ({"model_type": "hunyuan_v1_moe", "moe_topk": [1, 1]}, "moe_topk"),
        ({"model_type": "laguna", "num_attention_heads_per_layer": [4] * 3}, "per_layer"),
        ({"model_type": "glm_moe_dsa", "index_topk_pattern": "FS"}, "index_topk_pattern"),
        ({"model_type": "glm_moe_dsa", "index_topk_pattern": "FXFS"}, "index_topk_pattern"),
        ({"model_type": "deepseek_v4", "compress_ratios": [0, 4, 5, 128]}, "compress_ratios"),
        ({"model_type": "deepseek_v4", "compress_ratios": [0, 4]}, "compress_ratios"),
        ({"model_type": "longcat_flash", "qk_head_dim": 1}, "qk_head_dim"),
        ({"model_type": "minimax_m2", "mtp_transformer_layers": 2}, "mtp_transformer_layers"),
        ({"model_type": "mixtral", "per_layer_config": {"0": {}}}, "per_layer_config"),
    ],
)
def test_lists_and_sizes_that_make_no_model_are_refused(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        parse_config({"num_hidden_layers": 4, **config})


def test_hunyuan_counts_experts_by_layer() -> None:
    config = {**SMALL, "model_type": "hunyuan_v1_moe", "num_experts": 8, "moe_topk": [1, 2, 3, 4]}
    found = experts({**config, "num_shared_expert": [1, 1, 1, 2]})
    assert [each.top_k for each in found] == [1, 2, 3, 4]
    assert [each.shared_ffn for each in found] == [96, 96, 96, 192]


def test_identity_experts_own_no_weights() -> None:
    config = {"model_type": "longcat_flash", "num_layers": 2, "n_routed_experts": 8}
    with_identity, without = (
        count_parameters(parse_config({**config, "zero_expert_num": count})) for count in (4, None)
    )
    assert with_identity.by_bucket["routed_experts"] == without.by_bucket["routed_experts"]
    assert with_identity.by_bucket["router"] > without.by_bucket["router"]


def test_earlier_configs_of_deepseek_v4_name_layers_by_their_compression() -> None:
    config = {"model_type": "deepseek_v4", "num_hidden_layers": 4}
    ratios = parse_config({**config, "compress_ratios": [0, 4, 128, 4, 0]})
    names = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    named = parse_config({**config, "layer_types": [*names, names[1]]})
    assert ratios.layer_kinds == named.layer_kinds
    assert ratios.pattern == named.pattern
    assert named.residual_streams == 4


def test_dense_layers_of_llama4_are_wider_than_its_experts() -> None:
    config = {"model_type": "llama4_text", "num_hidden_layers": 4, "moe_layers": [0]}
    [_, mlp] = blocks(parse_config(config))[1]
    assert isinstance(mlp, Mlp)
    assert mlp.ffn == 16384
    assert experts(config)[0].ffn == 8192
    attentions = [layer[0] for layer in blocks(parse_config(config))]
    ropes = [each.rope for each in attentions if isinstance(each, Attention)]
    assert ropes == [True, True, True, False]


@pytest.mark.parametrize(
    ("config", "depths"),
    [
        ({"model_type": "glm4_moe"}, 0),
        ({"model_type": "glm4_moe", "num_nextn_predict_layers": 0}, 0),
        ({"model_type": "glm4_moe", "num_nextn_predict_layers": 2}, 2),
        ({"model_type": "deepseek_v3", "num_mtp_layers": 1}, 1),
        ({"model_type": "minimax_m2", "use_mtp": True, "num_mtp_modules": 3}, 3),
        ({"model_type": "minimax_m2", "use_mtp": False, "num_mtp_modules": 3}, 0),
    ],
)
def test_multi_token_prediction_is_what_the_config_declares(
    config: dict[str, Any], depths: int
) -> None:
    spec = parse_config({"num_hidden_layers": 4, **config})
    assert (spec.mtp.num_layers if spec.mtp else 0) == depths


def test_a_prediction_depth_is_a_layer_of_the_last_kind_with_a_projection_and_three_norms() -> None:
    config = {**DEEPSEEK, "model_type": "deepseek_v3", "num_nextn_predict_layers": 1}
    spec = parse_config(config)
    counts = count_parameters(spec)
    layer = sum(counts.layer_kinds[spec.pattern[-1]].values())
    assert counts.mtp == layer + 2 * 64 * 64 + 3 * 64
    assert counts.total == count_parameters(parse_config({**config, "num_mtp_layers": 0})).total
