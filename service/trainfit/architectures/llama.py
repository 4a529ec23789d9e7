"""Llama and the types that share its layer: grouped attention, a gated MLP, two RMSNorms.

Several of them bring their own modelling code under another name for the same shapes.
"""

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

LLAMA_7B = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}


def llama_decoder(config: Config, *, tied: bool = False) -> ModelSpec:
    """The layer of Llama, its biases by key; `config` has its class's sizes filled in."""
    bias = config.bool("attention_bias", False)
    hidden = config.int("hidden_size")
    layer = pre_norm_layer(
        rms(hidden),
        grouped_query_attention(config, qkv_bias=bias, out_bias=bias),
        gated_mlp(config, bias=config.bool("mlp_bias", False)),
    )
    return decoder(config, [layer] * layer_count(config), tied=tied, final_norm=rms(hidden))


def llama(config: Config) -> ModelSpec:
    return llama_decoder(config.with_defaults(LLAMA_7B))


def baichuan(config: Config) -> ModelSpec:
    """The 7B has rotary positions, the 13B ALiBi: neither owns weights."""
    return llama_decoder(config.with_defaults({**LLAMA_7B, "vocab_size": 64000}))


def exaone(config: Config) -> ModelSpec:
    """EXAONE 3; `intermediate_size` is four times the hidden size where null or absent."""
    sizes = {
        "vocab_size": 102400,
        "hidden_size": 2048,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    }
    config = config.with_defaults(sizes, num_layers="num_hidden_layers")
    if config.get("intermediate_size") is None:
        config = Config(
            {**config.values, "intermediate_size": 4 * config.int("hidden_size")}, config.path
        )
    return llama_decoder(config, tied=True)


def internlm2(config: Config) -> ModelSpec:
    sizes = {**LLAMA_7B, "vocab_size": 103168, "attention_bias": True}
    return llama_decoder(config.with_defaults(sizes, bias="attention_bias"))


def internlm3(config: Config) -> ModelSpec:
    sizes = {
        "vocab_size": 128512,
        "hidden_size": 4096,
        "intermediate_size": 10240,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
    }
    return llama_decoder(config.with_defaults(sizes, qkv_bias="attention_bias", bias="mlp_bias"))


def iquestcoder(config: Config) -> ModelSpec:
    sizes = {
        "vocab_size": 76800,
        "hidden_size": 5120,
        "intermediate_size": 27648,
        "num_hidden_layers": 80,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    return llama_decoder(config.with_defaults(sizes))


def xverse(config: Config) -> ModelSpec:
    sizes = {
        "vocab_size": 100278,
        "hidden_size": 5120,
        "intermediate_size": 13824,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
    }
    return llama_decoder(config.with_defaults(sizes))


PARSERS = {
    "baichuan": baichuan,
    "exaone": exaone,
    "internlm2": internlm2,
    "internlm3": internlm3,
    "iquestcoder": iquestcoder,
    "llama": llama,
    "xverse": xverse,
}
