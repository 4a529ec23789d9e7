"""StableLM and Orion: Llama's layer under LayerNorms with a bias."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    head_wise_norms,
    kv_heads,
    layer_count,
    layer_norm,
    multi_head_attention,
    parallel_layer,
    pre_norm_layer,
)
from trainfit.specs.architecture import ModelSpec

_STABLELM_3B = {
    "vocab_size": 50304,
    "hidden_size": 2560,
    "intermediate_size": 6912,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
_ORION = {
    "vocab_size": 84608,
    "intermediate_size": 15360,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
}


def stablelm(config: Config) -> ModelSpec:
    """With `use_parallel_residual` a layer has one norm only."""
    config = config.with_defaults(_STABLELM_3B)
    norm = layer_norm(config.int("hidden_size"))
    attention = multi_head_attention(
        config,
        groups=kv_heads(config, config.int("num_attention_heads")),
        qkv_bias=config.bool("use_qkv_bias", False),
    )
    if config.bool("qk_layernorm", False):
        attention = head_wise_norms(attention)
    mlp = gated_mlp(config)
    if config.bool("use_parallel_residual", False):
        layer = parallel_layer((norm,), attention, mlp)
    else:
        layer = pre_norm_layer(norm, attention, mlp)
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def orion(config: Config) -> ModelSpec:
    config = config.with_defaults(_ORION)
    norm = layer_norm(config.int("hidden_size"))
    groups = kv_heads(config, config.int("num_attention_heads"))
    layer = pre_norm_layer(norm, multi_head_attention(config, groups=groups), gated_mlp(config))
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


PARSERS = {"orion": orion, "stablelm": stablelm}
