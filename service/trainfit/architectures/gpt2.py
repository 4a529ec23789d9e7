"""GPT, GPT-2 and the types that keep its plan: learned positions, LayerNorms, biases everywhere."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    post_norm_layer,
    pre_norm_layer,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Mlp

GPT2_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
}
"""GPT-2's own names of keys."""

_GPT2_SMALL = {
    "vocab_size": 50257,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 1024,
}
_GPT = {**_GPT2_SMALL, "vocab_size": 40478, "max_position_embeddings": 512}
_CTRL = {
    "vocab_size": 246534,
    "hidden_size": 1280,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
}


def four_times_hidden(config: Config, key: str) -> int:
    """The width of the MLP; four times the hidden size where null or absent."""
    width = config.optional_int(key)
    return width if width is not None else 4 * config.int("hidden_size")


def refuse_cross_attention(config: Config) -> None:
    """Cross-attention makes half of an encoder-decoder, which has no memory model here."""
    if config.bool("add_cross_attention", False):
        raise config.error("add_cross_attention", "encoder-decoders are not supported")


def _decoder(config: Config, attention: Attention) -> ModelSpec:
    refuse_cross_attention(config)
    norm = layer_norm(config.int("hidden_size"))
    mlp = Mlp(ffn=four_times_hidden(config, "n_inner"), gated=False, bias=True)
    return decoder(
        config,
        [pre_norm_layer(norm, attention, mlp)] * layer_count(config),
        tied=True,
        final_norm=norm,
        position_rows=config.int("max_position_embeddings"),
    )


def gpt2(config: Config) -> ModelSpec:
    config = config.with_defaults(_GPT2_SMALL, **GPT2_NAMES)
    attention = multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False)
    return _decoder(config, attention)


def gpt_bigcode(config: Config) -> ModelSpec:
    """GPT-2 with one key and value head for all queries."""
    config = config.with_defaults(_GPT2_SMALL, **GPT2_NAMES)
    groups = 1 if config.bool("multi_query", True) else None
    attention = multi_head_attention(
        config, groups=groups, qkv_bias=True, out_bias=True, rope=False
    )
    return _decoder(config, attention)


def openai_gpt(config: Config) -> ModelSpec:
    """The first GPT: a norm after each block and none at the end."""
    config = config.with_defaults(_GPT, **GPT2_NAMES)
    hidden = config.int("hidden_size")
    layer = post_norm_layer(
        layer_norm(hidden),
        multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False),
        Mlp(ffn=4 * hidden, gated=False, bias=True),
    )
    return decoder(
        config,
        [layer] * layer_count(config),
        tied=True,
        final_norm=None,
        position_rows=config.int("max_position_embeddings"),
    )


def ctrl(config: Config) -> ModelSpec:
    """Sinusoidal positions, and a bias of the output layer beside the tied weight."""
    config = config.with_defaults(_CTRL, **GPT2_NAMES)
    norm = layer_norm(config.int("hidden_size"))
    layer = pre_norm_layer(
        norm,
        multi_head_attention(config, qkv_bias=True, out_bias=True, rope=False),
        Mlp(ffn=config.int("dff", 8192), gated=False, bias=True),
    )
    layers = [layer] * layer_count(config)
    return decoder(config, layers, tied=True, final_norm=norm, head_bias=True)


PARSERS = {
    "ctrl": ctrl,
    "gpt-sw3": gpt2,
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "openai-gpt": openai_gpt,
}
