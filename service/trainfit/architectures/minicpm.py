"""MiniCPM: Llama's layer, with Mixtral's experts or, in the third generation, latent attention."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.latent import latent_attention
from trainfit.architectures.vocabulary import LLAMA_7B
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Experts, Mlp

_MINICPM3_4B = {
    "vocab_size": 73448,
    "hidden_size": 2560,
    "intermediate_size": 6400,
    "num_hidden_layers": 62,
    "num_attention_heads": 40,
    "q_lora_rank": 768,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
}


def _feed_forward(config: Config) -> Mlp | Experts:
    experts = config.int("num_experts", 0)
    if not experts:
        return gated_mlp(config)
    return Experts(
        experts=experts,
        top_k=config.int("num_experts_per_tok", 2),
        ffn=config.int("intermediate_size"),
    )


def minicpm(config: Config) -> ModelSpec:
    config = config.with_defaults(LLAMA_7B)
    bias = config.bool("attention_bias", False)
    hidden = config.int("hidden_size")
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    layer = pre_norm_layer(rms(hidden), attention, _feed_forward(config))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=rms(hidden))


def minicpm3(config: Config) -> ModelSpec:
    """Value heads share out the hidden size where `v_head_dim` is null or absent."""
    config = config.with_defaults(_MINICPM3_4B)
    hidden = config.int("hidden_size")
    if config.get("v_head_dim") is None:
        width = hidden // config.int("num_attention_heads")
        config = Config({**config.values, "v_head_dim": width}, config.path)
    mlp = gated_mlp(config, bias=config.bool("mlp_bias", False))
    layer = pre_norm_layer(rms(hidden), latent_attention(config), mlp)
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=rms(hidden))


PARSERS = {"minicpm": minicpm, "minicpm3": minicpm3}
