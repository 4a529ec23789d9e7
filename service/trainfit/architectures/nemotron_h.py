"""Nemotron-H: every layer is one block, Mamba 2, attention, a feed-forward or experts."""

from collections.abc import Callable, Mapping, Sequence

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    grouped_query_attention,
    plain_mlp,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.layer_patterns import named_layers
from trainfit.architectures.state_space import mamba2_mixer
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Experts, Recurrence

_NEMOTRON_H = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 21504,
    "mlp_bias": False,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "use_bias": False,
    "n_routed_experts": 8,
    "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688,
    "moe_latent_size": None,
    "num_experts_per_tok": 2,
}
_ALIASES = {
    "layer_types": "layers_block_type",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_d_conv": "conv_kernel",
    "mamba_n_groups": "n_groups",
    "num_local_experts": "n_routed_experts",
}
_SYMBOLS = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}


def nemotron_h(config: Config) -> ModelSpec:
    """The list or pattern of blocks decides the number of layers; embeddings are never tied.

    A multi-token-prediction depth is a short pattern of its own.
    """
    config = config.with_defaults(_NEMOTRON_H, **_ALIASES)
    norm = rms(config.int("hidden_size"))
    types = _block_types(config, "layers_block_type", "hybrid_override_pattern")
    further = _block_types(config, "mtp_layers_block_type", "mtp_hybrid_override_pattern")
    types = types or ["linear_attention", "moe", "full_attention", "mlp"]
    further = further or ["full_attention", "moe"]
    blocks = _blocks(config, {*types, *further})
    layers = {name: pre_norm_layer(norm, block) for name, block in blocks.items()}
    return decoder(
        config,
        [layers[name] for name in types],
        tied=None,
        final_norm=norm,
        mtp_layer=pre_norm_layer(norm, *(blocks[name] for name in further)),
    )


def _block_types(config: Config, names_key: str, pattern_key: str) -> Sequence[str]:
    """Names of blocks from a list or, without one, from a string of symbols; maybe none."""
    if config.get(names_key) is not None:
        count = len(config.list(names_key))
        return named_layers(config, names_key, [""] * count, _SYMBOLS.values())
    pattern = config.str(pattern_key, "")
    if set(pattern) - set(_SYMBOLS):
        raise config.error(pattern_key, f"must hold only {' '.join(_SYMBOLS)}")
    return [_SYMBOLS[symbol] for symbol in pattern]


def _blocks(config: Config, names: set[str]) -> Mapping[str, Block]:
    """Only the blocks that occur: a config without experts may hold no sizes for them."""
    makers: Mapping[str, Callable[[], Block]] = {
        "linear_attention": lambda: _mixer(config),
        "full_attention": lambda: grouped_query_attention(config, rope=False),
        "mlp": lambda: plain_mlp(config, bias=config.bool("mlp_bias")),
        "moe": lambda: _experts(config),
    }
    return {name: makers[name]() for name in names}


def _mixer(config: Config) -> Recurrence:
    heads, bias = config.int("mamba_num_heads"), config.bool("use_bias")
    return mamba2_mixer(
        config.int("hidden_size"),
        inner=heads * config.int("mamba_head_dim"),
        heads=heads,
        groups=config.int("n_groups"),
        state=config.int("ssm_state_size"),
        kernel=config.int("conv_kernel"),
        in_bias=bias,
        out_bias=bias,
        conv_bias=config.bool("use_conv_bias"),
    )


def _experts(config: Config) -> Experts:
    """Plain experts, maybe between latent projections; one shared expert on the hidden state."""
    bias, latent = config.bool("mlp_bias"), config.optional_int("moe_latent_size")
    return Experts(
        experts=config.int("n_routed_experts"),
        top_k=config.int("num_experts_per_tok"),
        ffn=config.int("moe_intermediate_size"),
        gated=False,
        latent=latent,
        latent_bias=bias and latent is not None,
        shared_ffn=config.int("moe_shared_expert_intermediate_size"),
        shared_gated=False,
        shared_bias=bias,
    )


PARSERS = {"nemotron_h": nemotron_h}
