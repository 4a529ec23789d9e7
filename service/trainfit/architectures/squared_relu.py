"""Nemotron, Arcee, Jais 2 and NanoChat: Llama's attention with a plain MLP of squared ReLU."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    layer_norm,
    plain_mlp,
    pre_norm_layer,
    rms,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Norm

_NEMOTRON = {
    "vocab_size": 256000,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 32,
    "num_attention_heads": 48,
}
_ARCEE = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "intermediate_size": 18432,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
_JAIS2 = {
    "vocab_size": 150272,
    "hidden_size": 3328,
    "intermediate_size": 26624,
    "num_hidden_layers": 32,
    "num_attention_heads": 26,
}
_NANOCHAT = {
    "vocab_size": 50304,
    "hidden_size": 768,
    "intermediate_size": 8192,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
}


def _decoder(config: Config, norm: Norm, *, biased: bool) -> ModelSpec:
    """`biased` is the class's default for both kinds of bias."""
    bias = config.bool("attention_bias", biased)
    layer = pre_norm_layer(
        norm,
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias),
        plain_mlp(config, bias=config.bool("mlp_bias", biased)),
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def nemotron(config: Config) -> ModelSpec:
    config = config.with_defaults(_NEMOTRON)
    return _decoder(config, layer_norm(config.int("hidden_size")), biased=False)


def arcee(config: Config) -> ModelSpec:
    config = config.with_defaults(_ARCEE)
    return _decoder(config, rms(config.int("hidden_size")), biased=False)


def jais2(config: Config) -> ModelSpec:
    config = config.with_defaults(_JAIS2)
    return _decoder(config, layer_norm(config.int("hidden_size")), biased=True)


def nanochat(config: Config) -> ModelSpec:
    """All norms are without weights, those of query and key heads and of the embedding too."""
    config = config.with_defaults(_NANOCHAT)
    norm = Norm(width=config.int("hidden_size"), weight=False)
    bias = config.bool("attention_bias", False)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias)
    head = Norm(width=attention.head_dim, weight=False)
    layer = pre_norm_layer(
        norm,
        attention.model_copy(update={"q_norm": head, "k_norm": head}),
        plain_mlp(config),
    )
    layers = [layer] * layer_count(config)
    return decoder(config, layers, tied=False, final_norm=norm, embedding_norms=(norm,))


PARSERS = {"arcee": arcee, "jais2": jais2, "nanochat": nanochat, "nemotron": nemotron}
