"""Keys of hybrids that a published config seldom shows, and values that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters
from trainfit.specs.blocks import Attention, Block, Experts, Layer, Mlp, Opaque, Recurrence

SMALL = {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 1000}


def blocks(layer: Layer) -> list[Block]:
    return [block for sublayer in layer.sublayers for block in sublayer.blocks]


def mixers(config: dict[str, Any]) -> list[str]:
    """The kind of the first mixer of each layer, in order."""
    spec = parse_config(config)
    kinds = [
        next(block.kind for block in blocks(kind) if isinstance(block, Attention | Recurrence))
        for kind in spec.layer_kinds
    ]
    return [kinds[index] for index in spec.pattern]


def recurrence(config: dict[str, Any]) -> Recurrence:
    spec = parse_config(config)
    found = [block for kind in spec.layer_kinds for block in blocks(kind)]
    return next(block for block in found if isinstance(block, Recurrence))


@pytest.mark.parametrize(
    ("config", "inner"),
    [
        ({"model_type": "mamba", "hidden_size": 64}, 128),
        ({"model_type": "falcon_mamba", "hidden_size": 64, "expand": 16}, 1024),
        (
            {
                "model_type": "falcon_mamba",
                "hidden_size": 64,
                "expand": 16,
                "intermediate_size": 128,
            },
            128,
        ),
        ({"model_type": "falcon_h1"}, 1024),
        ({"model_type": "falcon_h1", "mamba_d_ssm": None}, 8192),
        ({"model_type": "recurrent_gemma", "lru_width": None}, 2560),
        ({"model_type": "rwkv", "attention_hidden_size": None, "hidden_size": 64}, 64),
    ],
)
def test_inner_width_of_a_mixer(config: dict[str, Any], inner: int) -> None:
    assert recurrence(config).inner_width == inner


def test_mamba2_projects_and_convolves_what_it_says() -> None:
    mixer = recurrence({"model_type": "mamba2", "n_groups": 8, "state_size": 128})
    assert mixer.convolved_width == 8192 + 2 * 8 * 128
    assert mixer.projected_width == 8192 + mixer.convolved_width + 128


@pytest.mark.parametrize(
    ("config", "attending"),
    [
        ({"model_type": "lfm2", **SMALL}, [0, 1, 2, 3, 4, 5]),
        ({"model_type": "lfm2", **SMALL, "full_attn_idxs": [1, 4]}, [1, 4]),
        ({"model_type": "lfm3", **SMALL}, [2, 4]),
        ({"model_type": "qwen3_next", **SMALL}, [3]),
        ({"model_type": "qwen3_5_text", **SMALL, "full_attention_interval": 3}, [2, 5]),
        ({"model_type": "olmo_hybrid", **SMALL, "num_hidden_layers": 3}, [2]),
        ({"model_type": "bamba", **SMALL, "mamba_n_heads": 8, "attn_layer_indices": [0]}, [0]),
        ({"model_type": "bamba", **SMALL, "mamba_n_heads": 8}, []),
        ({"model_type": "recurrent_gemma", **SMALL}, [2, 5]),
        (
            {"model_type": "qwen3_next", **SMALL, "layer_types": ["attention", *["mamba"] * 5]},
            [0],
        ),
    ],
)
def test_layers_with_attention(config: dict[str, Any], attending: list[int]) -> None:
    assert [i for i, kind in enumerate(mixers(config)) if kind == "attention"] == attending


def test_granite_without_experts_keeps_its_shared_mlp() -> None:
    config = {"model_type": "granitemoehybrid", "num_local_experts": 0}
    [kind] = parse_config(config).layer_kinds
    assert isinstance(blocks(kind)[1], Mlp)
    assert (
        count_parameters(parse_config(config)).by_bucket["shared_experts"] == 32 * 3 * 4096 * 1024
    )


def test_one_expert_is_a_dense_feed_forward() -> None:
    kinds = parse_config({"model_type": "jamba", "num_experts": 1}).layer_kinds
    assert not any(isinstance(block, Experts) for kind in kinds for block in blocks(kind))


def test_zamba_counts_its_shared_block_once_unless_nothing_is_tied() -> None:
    config = {"model_type": "zamba", **SMALL, "num_hidden_layers": 10, "num_key_value_heads": 4}
    block = 7 * 2 * 64 * 64
    tied = count_parameters(parse_config(config))
    untied = count_parameters(parse_config({**config, "tie_word_embeddings": False}))
    assert tied.by_bucket["attention"] == block
    assert untied.by_bucket["attention"] == 2 * block


def test_each_zamba2_block_holds_the_adapters_of_its_runs() -> None:
    types = ["mamba", *["hybrid"] * 5]
    config = {"model_type": "zamba2", **SMALL, "layers_block_type": types, "num_mem_blocks": 2}
    adapters = [
        block.weights[0].shape[0]
        for kind in parse_config(config).layer_kinds
        for block in blocks(kind)
        if isinstance(block, Opaque) and block.name == "mlp_adapters"
    ]
    assert adapters == [3, 2]


def test_nemotron_reads_a_list_before_a_pattern_and_never_ties() -> None:
    config = {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "MMMM",
        "layers_block_type": ["mamba", "moe"],
        "tie_word_embeddings": True,
    }
    spec = parse_config(config)
    assert spec.num_layers == 2
    assert not spec.output_layer.tied


def test_nemotron_predicts_further_with_a_pattern_of_its_own() -> None:
    spec = parse_config({"model_type": "nemotron_h", "num_nextn_predict_layers": 1})
    assert spec.mtp is not None
    layer = spec.layer_kinds[spec.mtp.layer_kind]
    assert [block.kind for block in blocks(layer)] == ["attention", "moe"]
    assert spec.mtp.layer_kind not in spec.pattern


def test_qwen3_next_with_its_multi_token_prediction() -> None:
    counts = count_parameters(
        parse_config({"model_type": "qwen3_next", "mtp_num_hidden_layers": 1})
    )
    assert counts.total + counts.mtp == 81_324_862_720


def test_a_prediction_depth_attends_fully_whatever_the_last_layer_does() -> None:
    config = {"model_type": "qwen3_5_text", **SMALL, "mtp_num_hidden_layers": 1}
    spec = parse_config(config)
    assert spec.mtp is not None
    assert mixers(config)[-1] == "recurrence"
    assert isinstance(blocks(spec.layer_kinds[spec.mtp.layer_kind])[0], Attention)


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts"])
def test_kimi_knows_its_experts_by_two_names(key: str) -> None:
    kinds = parse_config({"model_type": "kimi_linear", key: 12}).layer_kinds
    experts = [block for kind in kinds for block in blocks(kind) if isinstance(block, Experts)]
    assert {block.experts for block in experts} == {12}


def test_gemma4_full_attention_has_sizes_of_its_own() -> None:
    spec = parse_config(
        {
            "model_type": "gemma4_text",
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 2,
            "layer_types": ["sliding_attention"] * 30,
        }
    )
    local, last = (blocks(spec.layer_kinds[spec.pattern[index]])[0] for index in (0, -1))
    assert isinstance(local, Attention)
    assert isinstance(last, Attention)
    assert (local.kv_heads, local.head_dim, local.key_is_value) == (4, 256, False)
    assert (last.kv_heads, last.head_dim, last.key_is_value) == (2, 512, True)


def test_gemma4_reads_sizes_of_single_layers() -> None:
    config = {"model_type": "gemma4_text", "per_layer_config": {"3": {"head_dim": 128}}}
    spec = parse_config(config)
    sizes = [blocks(spec.layer_kinds[kind])[0] for kind in spec.pattern]
    dims = [block.head_dim for block in sizes if isinstance(block, Attention)]
    assert [index for index, dim in enumerate(dims) if dim == 128] == [3]
    assert dims[-1] == 256


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "mamba2", "num_heads": 3}, "/num_heads"),
        ({"model_type": "mamba", "time_step_rank": None}, "/time_step_rank"),
        ({"model_type": "bamba", "mamba_d_head": 7}, "/mamba_n_heads"),
        ({"model_type": "jamba", "attn_layer_offset": 8}, "/attn_layer_offset"),
        ({"model_type": "granitemoehybrid", "layer_types": ["mamba"] * 3}, "/layer_types"),
        ({"model_type": "zamba2", "num_hidden_layers": 7}, "/layers_block_type"),
        ({"model_type": "zamba2", "hybrid_layer_ids": [6]}, "/hybrid_layer_ids"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"}, "/hybrid_override_pattern"),
        ({"model_type": "nemotron_h", "layers_block_type": ["conv"]}, "/layers_block_type"),
        ({"model_type": "recurrent_gemma", "block_types": []}, "/block_types"),
        ({"model_type": "lfm2_moe"}, "/layer_types"),
        ({"model_type": "qwen3_next", "layer_types": ["full_attention"]}, "/layer_types"),
        (
            {
                "model_type": "kimi_linear",
                "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1]},
            },
            "/linear_attn_config/kda_layers",
        ),
        ({"model_type": "gemma3n_text", "intermediate_size": [1, 2]}, "/intermediate_size"),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 30}, "/num_kv_shared_layers"),
        (
            {"model_type": "gemma4_assistant", "text_config": {}},
            "/text_config/hidden_size_per_layer_input",
        ),
        (
            {
                "model_type": "qwen4_exp_text",
                "indexer_n_heads": 4,
                "indexer_kv_heads": 1,
                "indexer_head_dim": 64,
                "ple_layer_ids": [4],
            },
            "/ple_layer_ids",
        ),
        ({"model_type": "zaya", "num_experts_per_tok": 2}, "/num_experts_per_tok"),
    ],
)
def test_what_does_not_make_a_model_is_refused(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_config(config)
    assert refusal.value.key == key
