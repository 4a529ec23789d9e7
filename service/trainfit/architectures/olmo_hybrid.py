"""OLMo Hybrid: gated DeltaNet, and OLMo 3's attention, normed after each block, now and then."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    post_norm_layer,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.delta_net import gated_delta_net
from trainfit.architectures.layer_patterns import attention_types
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Recurrence

_OLMO_HYBRID = {
    "vocab_size": 100352,
    "hidden_size": 3840,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 30,
    "num_key_value_heads": None,
    "attention_bias": False,
    "linear_conv_kernel_dim": 4,
}


def olmo_hybrid(config: Config) -> ModelSpec:
    """Attention in every fourth layer, at least in the last one."""
    config = config.with_defaults(_OLMO_HYBRID)
    total = layer_count(config)
    default = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(total)]
    if total < 4:
        default[-1] = "full_attention"
    types = attention_types(config, default, ("full_attention", "linear_attention"))
    bias = config.bool("attention_bias")
    norm, mlp = rms(config.int("hidden_size")), gated_mlp(config)
    attention = grouped_query_attention(config, qkv_bias=bias, out_bias=bias, qk_norm="width")
    kinds = {
        "linear_attention": pre_norm_layer(norm, _delta_net(config), mlp),
        "full_attention": post_norm_layer(norm, attention, mlp),
    }
    return decoder(config, [kinds[each] for each in types], tied=False, final_norm=norm)


def _delta_net(config: Config) -> Recurrence:
    """As many heads as attention where not given, keys 3/4 of h and values twice that together."""
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    key_heads = _optional(config, "linear_num_key_heads", heads)
    key_dim = _optional(config, "linear_key_head_dim", 3 * hidden // (4 * key_heads))
    return gated_delta_net(
        hidden,
        key_heads=key_heads,
        value_heads=_optional(config, "linear_num_value_heads", heads),
        key_dim=key_dim,
        value_dim=_optional(config, "linear_value_head_dim", 2 * key_dim),
        kernel=config.int("linear_conv_kernel_dim"),
    )


def _optional(config: Config, key: str, default: int) -> int:
    """An integer, `default` where it is null or absent."""
    value = config.optional_int(key)
    return default if value is None else value


PARSERS = {"olmo_hybrid": olmo_hybrid}
