"""NanoChat: Llama's attention and a plain MLP, all norms without weights."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    plain_mlp,
    pre_norm_layer,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Norm

_NANOCHAT = {
    "vocab_size": 50304,
    "hidden_size": 768,
    "intermediate_size": 8192,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
}


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


PARSERS = {"nanochat": nanochat}
