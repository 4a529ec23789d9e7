"""Keys of dense decoders that a published config seldom shows, and values that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from trainfit.architectures.config import ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.estimator.parameters import count_parameters
from trainfit.specs.blocks import Attention, Mlp


def attention_and_mlp(config: dict[str, Any]) -> tuple[Attention, Mlp]:
    """Those of the first layer, wherever they stand in it."""
    layer = parse_config(config).layer_kinds[0]
    blocks = [block for sublayer in layer.sublayers for block in sublayer.blocks]
    [attention] = [block for block in blocks if isinstance(block, Attention)]
    [mlp] = [block for block in blocks if isinstance(block, Mlp)]
    return attention, mlp


def test_null_heads_are_not_absent_heads() -> None:
    absent, _ = attention_and_mlp({"model_type": "qwen3"})
    null, _ = attention_and_mlp(
        {"model_type": "qwen3", "num_attention_heads": 16, "num_key_value_heads": None}
    )
    assert (absent.kv_heads, null.kv_heads) == (32, 16)
    null_dim, _ = attention_and_mlp({"model_type": "glm", "head_dim": None, "hidden_size": 2048})
    assert null_dim.head_dim == 2048 // 32


@pytest.mark.parametrize(
    ("config", "ffn"),
    [
        ({"model_type": "exaone", "hidden_size": 512}, 2048),
        ({"model_type": "exaone", "hidden_size": 512, "intermediate_size": None}, 2048),
        ({"model_type": "qwen", "intermediate_size": 2048}, 1024),
        ({"model_type": "chatglm", "ffn_hidden_size": 1000}, 1000),
        ({"model_type": "gpt2", "n_inner": None}, 3072),
        ({"model_type": "gpt2", "n_inner": 100}, 100),
        ({"model_type": "falcon", "ffn_hidden_size": None, "n_embed": 142}, 568),
        ({"model_type": "mpt", "d_model": 256, "expansion_ratio": 2}, 1024),
        ({"model_type": "gpt_neox_japanese", "intermediate_multiple_size": 3}, 7680),
        ({"model_type": "ctrl", "dff": 640}, 640),
    ],
)
def test_width_of_the_feed_forward(config: dict[str, Any], ffn: int) -> None:
    assert attention_and_mlp(config)[1].ffn == ffn


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ({"model_type": "falcon"}, 1),
        ({"model_type": "falcon", "num_kv_heads": 5}, 1),
        ({"model_type": "falcon", "multi_query": False, "num_kv_heads": 5}, 71),
        ({"model_type": "falcon", "multi_query": None}, 71),
        ({"model_type": "falcon", "new_decoder_architecture": True}, 71),
        ({"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 5}, 5),
        ({"model_type": "gpt_bigcode"}, 1),
        ({"model_type": "gpt_bigcode", "multi_query": False}, 12),
        ({"model_type": "chatglm"}, 32),
        ({"model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2}, 2),
        ({"model_type": "hrm_text", "num_key_value_heads": 4}, 12),
    ],
)
def test_key_and_value_heads(config: dict[str, Any], groups: int) -> None:
    assert attention_and_mlp(config)[0].kv_heads == groups


@pytest.mark.parametrize(
    ("config", "tied"),
    [
        ({"model_type": "minicpm"}, True),
        ({"model_type": "exaone"}, True),
        ({"model_type": "internlm2"}, False),
        ({"model_type": "baichuan"}, False),
        ({"model_type": "xverse"}, False),
        ({"model_type": "mimo"}, False),
        ({"model_type": "chatglm"}, False),
        ({"model_type": "orion", "hidden_size": 5120}, False),
    ],
)
def test_ties_of_remote_code_where_the_key_is_absent(config: dict[str, Any], tied: bool) -> None:
    assert parse_config(config).output_layer.tied is tied


def test_internlm2_has_biases_unless_told_otherwise() -> None:
    attention, mlp = attention_and_mlp({"model_type": "internlm2"})
    assert attention.qkv_bias
    assert attention.out_bias
    assert not mlp.bias
    assert not attention_and_mlp({"model_type": "internlm2", "bias": False})[0].qkv_bias


def test_opt_with_embeddings_narrower_than_its_layers() -> None:
    """OPT-350M: 512 wide embeddings, layers and positions of 1024, norms after the blocks."""
    spec = parse_config(
        {
            "model_type": "opt",
            "hidden_size": 1024,
            "word_embed_proj_dim": 512,
            "ffn_dim": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "do_layer_norm_before": False,
        }
    )
    assert not spec.final_norms
    assert count_parameters(spec).outside_layers == {
        "embedding": 50272 * 512,
        "position_embedding": 2050 * 1024,
        "other": 2 * 512 * 1024,
    }


def test_hrm_text_counts_each_stack_once_however_often_it_runs() -> None:
    sizes = {"model_type": "hrm_text", "num_hidden_layers": 3}
    once = parse_config({**sizes, "H_cycles": 1, "L_cycles": 1})
    often = parse_config({**sizes, "H_cycles": 2, "L_cycles": 4})
    assert (once.num_layers, often.num_layers) == (6, 30)
    assert count_parameters(once).total == count_parameters(often).total


SECOND = "block_configs/1/attention"
NO_SQUARES = "embd_layer/use_hd_transform"


def of_blocks(attention: dict[str, Any], ffn: dict[str, Any] | None = None) -> dict[str, Any]:
    """A model whose second layer has these parts."""
    whole = {"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}
    second = {"attention": attention, "ffn": ffn or {"ffn_mult": 0.5}}
    blocks = [whole, second]
    return {"model_type": "nemotron-nas", "num_hidden_layers": 2, "block_configs": blocks}


def test_layers_without_attention_have_no_norm_before_it() -> None:
    """Widths are rounded up to multiples of 256."""
    spec = parse_config(of_blocks({"no_op": True}))
    whole, narrow = (spec.layer_kinds[kind] for kind in spec.pattern)
    assert [len(each.sublayers) for each in (whole, narrow)] == [2, 1]
    widths = [each.ffn for each in (*whole.blocks, *narrow.blocks) if isinstance(each, Mlp)]
    assert widths == [28672, 2816]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "chatglm", "inner_hidden_size": 16384}, "inner_hidden_size"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "xglm", "add_cross_attention": True}, "add_cross_attention"),
        ({"model_type": "helium", "head_dim": 64}, "head_dim"),
        ({"model_type": "diffllama", "num_key_value_heads": 1}, "num_key_value_heads"),
        ({"model_type": "exaone4", "sliding_window_pattern": 0.5}, "sliding_window_pattern"),
        ({"model_type": "hrm_text", "L_cycles": 10**9}, "H_cycles"),
        ({"model_type": "doge", "is_moe": True, "num_experts": -1}, "num_experts"),
        ({"model_type": "nemotron-nas", "block_configs": [{}]}, "block_configs"),
        (of_blocks({"replace_with_linear": True}), f"{SECOND}/replace_with_linear"),
        (of_blocks({"n_heads_in_group": 3}), f"{SECOND}/n_heads_in_group"),
        (of_blocks({"n_heads_in_group": 8, "num_sink_tokens": 4}), f"{SECOND}/num_sink_tokens"),
        (of_blocks({"no_op": True}, {"no_op": True}), "block_configs/1/ffn"),
        ({"model_type": "phi3_v", "embd_layer": {"use_hd_transform": False}}, NO_SQUARES),
        ({"model_type": "llama", "attention_bias": "yes"}, "attention_bias"),
        ({"model_type": "llama", "hidden_size": None}, "hidden_size"),
    ],
)
def test_what_makes_no_model_is_refused(config: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(config)
    assert error.value.key == f"/{key}"
