"""Cohere's mixture of experts: attention and experts side by side behind one norm."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    layer_count,
    layer_norm,
    parallel_layer,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import first_dense, mlp_types
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Layer, Mlp, Norm

_COHERE2_MOE = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "head_dim": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 0,
    "sliding_window": 4096,
}


def _norm(config: Config) -> Norm:
    """A LayerNorm without bias, unless the config asks for an RMSNorm by its epsilon."""
    hidden = config.int("hidden_size")
    return layer_norm(hidden, bias=False) if config.get("rms_norm_eps") is None else rms(hidden)


def _feed_forwards(config: Config, dense: int, total: int) -> list[Block]:
    """Dense layers are as wide as experts where they have no width of their own."""
    ffn = config.int("intermediate_size")
    width = config.optional_int("prefix_dense_intermediate_size")
    mlps: dict[str, Block] = {
        "dense": Mlp(ffn=ffn if width is None else width),
        "sparse": routed_experts(
            config,
            "num_experts",
            "intermediate_size",
            shared_ffn=config.int("num_shared_experts") * ffn,
        ),
    }
    return [mlps[each] for each in mlp_types(config, first_dense(total, dense))]


def cohere2_moe(config: Config) -> ModelSpec:
    config = config.with_defaults(_COHERE2_MOE)
    total = layer_count(config)
    dense = config.int("first_k_dense_replace", 0)
    prefix = config.int("prefix_dense_sliding_window_pattern", 1)
    every = config.int("sliding_window_pattern", 4)

    def slides(index: int) -> bool:
        if index < dense:
            return (index + 1) % prefix != 0
        return (index - dense + 1) % every != 0

    bias, norm = config.bool("attention_bias", False), _norm(config)
    reach = windows(config, total, slides, sliding_window(config))
    layers: dict[tuple[int | None, Block], Layer] = {}
    stack = []
    for window, block in zip(reach, _feed_forwards(config, dense, total), strict=True):
        if (window, block) not in layers:
            attention = grouped_query_attention(
                config, qkv_bias=bias, out_bias=bias, window=window, rope=window is not None
            )
            layers[window, block] = parallel_layer((norm,), attention, block)
        stack.append(layers[window, block])
    return decoder(config, stack, tied=True, final_norm=norm)


PARSERS = {"cohere2_moe": cohere2_moe}
