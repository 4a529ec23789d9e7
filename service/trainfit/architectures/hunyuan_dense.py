"""Hunyuan dense: Llama's layer with norms of query and key heads."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.llama import LLAMA_7B
from trainfit.specs.architecture import ModelSpec


def hunyuan_v1_dense(config: Config) -> ModelSpec:
    config = config.with_defaults({**LLAMA_7B, "vocab_size": 290943})
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="head")
    layer = pre_norm_layer(norm, attention, gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"hunyuan_v1_dense": hunyuan_v1_dense}
