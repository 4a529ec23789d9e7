"""DBRX: LayerNorms without bias, sections for attention and experts."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import layer_count, layer_norm, pre_norm_decoder
from trainfit.architectures.experts import routed_experts
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention

_DBRX = {
    "vocab_size": 32000,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 2048,
}
_EXPERTS = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1}


def _section(config: Config, key: str) -> Config:
    return (
        config.section(key) if config.get(key) is not None else Config({}, f"{config.path}/{key}")
    )


def dbrx(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _DBRX,
        d_model="hidden_size",
        n_layers="num_hidden_layers",
        n_heads="num_attention_heads",
        max_seq_len="max_position_embeddings",
    )
    total = layer_count(config)
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    attention = Attention(
        heads=heads,
        kv_heads=_section(config, "attn_config").int("kv_n_heads", 1),
        head_dim=hidden // heads,
    )
    experts = routed_experts(
        _section(config, "ffn_config").with_defaults(_EXPERTS),
        "moe_num_experts",
        "ffn_hidden_size",
        top_k="moe_top_k",
    )
    norm = layer_norm(hidden, bias=False)
    return pre_norm_decoder(config, norm, [attention] * total, [experts] * total)


PARSERS = {"dbrx": dbrx}
