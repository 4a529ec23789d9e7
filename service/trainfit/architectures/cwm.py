"""Code World Model: Llama's layer, three of four within a window."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec

_CWM_32B = {
    "vocab_size": 128256,
    "hidden_size": 6144,
    "intermediate_size": 21504,
    "num_hidden_layers": 64,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "sliding_window": 8192,
}


def cwm(config: Config) -> ModelSpec:
    config = config.with_defaults(_CWM_32B)
    total, window = layer_count(config), sliding_window(config)
    reach = windows(config, total, lambda index: index % 4 != 0, window)
    attentions = [grouped_query_attention(config, window=each) for each in reach]
    mlps = [gated_mlp(config, bias=config.bool("mlp_bias", False))] * total
    return pre_norm_decoder(config, rms(config.int("hidden_size")), attentions, mlps)


PARSERS = {"cwm": cwm}
