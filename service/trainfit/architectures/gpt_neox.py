"""GPT-NeoX, its Japanese cousin and Persimmon: LayerNorms, plain MLPs, rotary positions."""

from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    parallel_layer,
    plain_mlp,
    pre_norm_layer,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Mlp

_NEOX_20B = {
    "vocab_size": 50432,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
}
_NEOX_JAPANESE = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
_PERSIMMON_8B = {
    "vocab_size": 262144,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
}


def gpt_neox(config: Config) -> ModelSpec:
    """Attention and MLP run side by side, each behind a norm of its own."""
    config = config.with_defaults(_NEOX_20B)
    bias = config.bool("attention_bias", True)
    norm = layer_norm(config.int("hidden_size"))
    attention = multi_head_attention(config, qkv_bias=bias, out_bias=bias)
    mlp = plain_mlp(config, bias=True)
    if config.bool("use_parallel_residual", True):
        layer = parallel_layer((norm, norm), attention, mlp)
    else:
        layer = pre_norm_layer(norm, attention, mlp)
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def gpt_neox_japanese(config: Config) -> ModelSpec:
    """No biases but the output projection's in the last layer."""
    config = config.with_defaults(_NEOX_JAPANESE)
    hidden = config.int("hidden_size")
    norm = layer_norm(hidden)
    mlp = Mlp(ffn=hidden * config.int("intermediate_multiple_size", 4), gated=False)

    @cache
    def layer(last: bool) -> Layer:
        return pre_norm_layer(norm, multi_head_attention(config, out_bias=last), mlp)

    total = layer_count(config)
    layers = [layer(index == total - 1) for index in range(total)]
    return decoder(config, layers, tied=True, final_norm=norm)


def persimmon(config: Config) -> ModelSpec:
    config = config.with_defaults(_PERSIMMON_8B)
    hidden = config.int("hidden_size")
    norm = layer_norm(hidden)
    normed = config.bool("qk_layernorm", True)
    head = layer_norm(hidden // config.int("num_attention_heads")) if normed else None
    attention = multi_head_attention(config, qkv_bias=True, out_bias=True, qk_norm=head)
    layer = pre_norm_layer(norm, attention, plain_mlp(config, bias=True))
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {
    "gpt_neox": gpt_neox,
    "gpt_neox_japanese": gpt_neox_japanese,
    "persimmon": persimmon,
}
