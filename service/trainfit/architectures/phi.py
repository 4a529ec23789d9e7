"""Phi 1 and 2: attention and MLP side by side, with biases everywhere."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    layer_norm,
    parallel_layer,
    plain_mlp,
)
from trainfit.specs.architecture import ModelSpec

_PHI = {
    "vocab_size": 51200,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
}


def phi(config: Config) -> ModelSpec:
    """The output layer has a bias too."""
    config = config.with_defaults(_PHI)
    norm = layer_norm(config.int("hidden_size"))
    attention = grouped_query_attention(config, qkv_bias=True, out_bias=True)
    if config.bool("qk_layernorm", False):
        head = layer_norm(config.int("hidden_size") // attention.heads)
        attention = attention.model_copy(update={"q_norm": head, "k_norm": head})
    layer = parallel_layer((norm,), attention, plain_mlp(config, bias=True))
    layers = [layer] * layer_count(config)
    return decoder(config, layers, tied=False, final_norm=norm, head_bias=True)


PARSERS = {"phi": phi}
