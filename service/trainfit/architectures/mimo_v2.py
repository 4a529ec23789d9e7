"""MiMo V2: values narrower than keys; layers with a window have sinks and twice the kv heads."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    head_dim,
    kv_heads,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.experts import routed_experts
from trainfit.architectures.layer_patterns import attention_types, first_dense, mlp_types
from trainfit.architectures.windows import sliding_window
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block

_MIMO_V2_FLASH = {
    "vocab_size": 152576,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "sliding_window": 129,
}


def _attention(config: Config, *, slides: bool) -> Attention:
    heads = config.int("num_attention_heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads(config, heads) * (2 if slides else 1),
        head_dim=head_dim(config, heads),
        v_head_dim=config.int("v_head_dim"),
        qkv_bias=config.bool("attention_bias", False),
        sinks=slides,
        window=sliding_window(config) if slides else None,
    )


def mimo_v2_flash(config: Config) -> ModelSpec:
    config = config.with_defaults(_MIMO_V2_FLASH, num_local_experts="n_routed_experts")
    total = layer_count(config)
    types = attention_types(
        config,
        [
            "full_attention" if index == 0 or (index + 1) % 6 == 0 else "sliding_attention"
            for index in range(total)
        ],
    )
    mlps: dict[str, Block] = {
        "dense": gated_mlp(config),
        "sparse": routed_experts(config, "n_routed_experts", "moe_intermediate_size"),
    }
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [_attention(config, slides=each == "sliding_attention") for each in types],
        [mlps[each] for each in mlp_types(config, first_dense(total, 1))],
    )


PARSERS = {"mimo_v2_flash": mimo_v2_flash}
