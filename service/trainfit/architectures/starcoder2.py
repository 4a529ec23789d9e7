"""StarCoder2: two kv heads, a plain MLP, LayerNorms; biases by one key, on by default."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    layer_norm,
    plain_mlp,
    pre_norm_layer,
)
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec

_STARCODER2_3B = {
    "vocab_size": 49152,
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "num_hidden_layers": 30,
    "num_attention_heads": 24,
    "num_key_value_heads": 2,
}


def starcoder2(config: Config) -> ModelSpec:
    config = config.with_defaults(_STARCODER2_3B)
    bias = config.bool("use_bias", True)
    norm = layer_norm(config.int("hidden_size"))
    attention = grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, window=sliding_window(config)
    )
    layer = pre_norm_layer(norm, attention, plain_mlp(config, bias=bias))
    return decoder(config, [layer] * layer_count(config), tied=True, final_norm=norm)


PARSERS = {"starcoder2": starcoder2}
