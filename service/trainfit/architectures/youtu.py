"""Youtu: a dense decoder with DeepSeek's latent attention."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.latent import latent_attention
from trainfit.specs.architecture import ModelSpec

_YOUTU_2B = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def youtu(config: Config) -> ModelSpec:
    config = config.with_defaults(_YOUTU_2B)
    norm = rms(config.int("hidden_size"))
    layer = pre_norm_layer(norm, latent_attention(config), gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"youtu": youtu}
