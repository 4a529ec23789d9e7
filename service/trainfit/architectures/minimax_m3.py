"""MiniMax M3's text decoder: sparse attention behind an indexer, experts beside a shared one."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types, flags, mlp_types
from trainfit.architectures.weights import linear, opaque, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Mlp, Opaque

_M3 = {
    "vocab_size": 200064,
    "hidden_size": 6144,
    "intermediate_size": 3072,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "index_n_heads": 4,
    "index_head_dim": 128,
}
SPARSE = "minimax_m3_sparse"


def _indexer(config: Config) -> Opaque:
    """Its widths may stand in `sparse_attention_config`, as in earlier configs."""
    hidden, heads = config.int("hidden_size"), config.int("index_n_heads")
    width = config.int("index_head_dim")
    if config.get("sparse_attention_config") is not None:
        earlier = config.section("sparse_attention_config")
        heads = earlier.int("sparse_num_index_heads", heads)
        width = earlier.int("sparse_index_dim", width)
    return opaque(
        "indexer",
        "attention",
        *linear("q_proj", heads * width, hidden),
        *linear("k_proj", width, hidden),
        weight("q_norm", width, bucket="norm"),
        weight("k_norm", width, bucket="norm"),
    )


def _attentions(config: Config) -> dict[str, tuple[Block, ...]]:
    attention = grouped_query_attention(config, qk_norm="head")
    return {"full_attention": (attention,), SPARSE: (attention, _indexer(config))}


def _attention_kinds(config: Config, total: int) -> list[str]:
    default = ["full_attention"] * total
    if config.get("sparse_attention_config") is not None:
        earlier = config.section("sparse_attention_config")
        if "sparse_attention_freq" in earlier:
            sparse = flags(earlier, "sparse_attention_freq", total)
            default = [SPARSE if each else "full_attention" for each in sparse]
    return list(attention_types(config, default, ("full_attention", SPARSE)))


def _mlp_kinds(config: Config, total: int) -> list[str]:
    default = ["sparse"] * total
    if config.get("moe_layer_freq") is not None:
        sparse = flags(config, "moe_layer_freq", total)
        default = ["sparse" if each else "dense" for each in sparse]
    return list(mlp_types(config, default))


def minimax_m3_text(config: Config) -> ModelSpec:
    config = config.with_defaults(_M3, num_experts="num_local_experts")
    total = layer_count(config)
    mlps: dict[str, Block] = {
        "dense": Mlp(ffn=config.int("dense_intermediate_size")),
        "sparse": routed_experts(
            config,
            "num_local_experts",
            "intermediate_size",
            shared_ffn=config.int("shared_intermediate_size"),
        ),
    }
    attentions = _attentions(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attentions[each] for each in _attention_kinds(config, total)],
        [mlps[each] for each in _mlp_kinds(config, total)],
    )


PARSERS = {"minimax_m3_vl_text": minimax_m3_text}
