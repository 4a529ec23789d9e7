"""ChatGLM 2 and 3, the forerunner of GLM 4, in Megatron's words."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    layer_norm,
    pre_norm_layer,
    rms,
)
from trainfit.specs.architecture import ModelSpec

_CHATGLM = {
    "vocab_size": 65024,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 28,
    "num_attention_heads": 32,
    "head_dim": 128,
}


def chatglm(config: Config) -> ModelSpec:
    """ChatGLM 2 and 3 and GLM-4-9B, in Megatron's words; the first ChatGLM is another model."""
    if "inner_hidden_size" in config:
        raise config.error("inner_hidden_size", "the first ChatGLM-6B is not supported")
    config = config.with_defaults(
        _CHATGLM,
        num_layers="num_hidden_layers",
        padded_vocab_size="vocab_size",
        ffn_hidden_size="intermediate_size",
        kv_channels="head_dim",
        seq_length="max_position_embeddings",
    )
    groups = None
    if config.bool("multi_query_attention", False):
        groups = config.int("multi_query_group_num", 1)
    config = config.with_defaults({"num_key_value_heads": groups})
    bias = config.bool("add_bias_linear", False)
    norm = (rms if config.bool("rmsnorm", True) else layer_norm)(config.int("hidden_size"))
    attention = grouped_query_attention(
        config, qkv_bias=bias or config.bool("add_qkv_bias", False), out_bias=bias
    )
    layer = pre_norm_layer(norm, attention, gated_mlp(config, bias=bias))
    return decoder(
        config,
        [layer] * layer_count(config),
        tied=False,
        final_norm=norm if config.bool("post_layer_norm", True) else None,
    )


PARSERS = {"chatglm": chatglm}
