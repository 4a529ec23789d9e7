"""Seed-OSS: Llama's layer with a bias by key for each kind of projection."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.specs.architecture import ModelSpec

_SEED_OSS = {
    "vocab_size": 155136,
    "hidden_size": 4096,
    "intermediate_size": 27648,
    "num_hidden_layers": 64,
    "num_attention_heads": 80,
    "num_key_value_heads": 8,
    "head_dim": 128,
}


def seed_oss(config: Config) -> ModelSpec:
    config = config.with_defaults(_SEED_OSS)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(
        config,
        qkv_bias=config.bool("attention_bias", True),
        out_bias=config.bool("attention_out_bias", False),
    )
    mlp = gated_mlp(config, bias=config.bool("mlp_bias", False))
    layers = [pre_norm_layer(norm, attention, mlp)] * layer_count(config)
    return decoder(config, layers, tied=False, final_norm=norm)


PARSERS = {"seed_oss": seed_oss}
