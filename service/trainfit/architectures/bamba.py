"""Bamba, Falcon-H1 and Granite 4: Mamba 2 beside attention, by the same names of keys."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.layer_patterns import attention_types, layer_numbers
from trainfit.architectures.state_space import mamba2_mixer
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts, Layer, Mlp, Recurrence, Sublayer

_MIXER = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "attention_bias": False,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}
_BAMBA = {
    **_MIXER,
    "vocab_size": 128000,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "mlp_bias": False,
}
_FALCON_H1 = {
    **_BAMBA,
    "mamba_d_ssm": 1024,
    "mamba_rms_norm": False,
    "projectors_bias": False,
}
_GRANITE = {
    **_MIXER,
    "vocab_size": 32000,
    "intermediate_size": 11008,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 1024,
}
_LAYER_TYPES = ("linear_attention", "full_attention")


def bamba(config: Config) -> ModelSpec:
    """Attention in the layers of `attn_layer_indices`, Mamba 2 in all others."""
    config = config.with_defaults(_BAMBA)
    attended = layer_numbers(config, "attn_layer_indices")
    attention, mixer = _attention(config), _mixer(config)
    mlp = gated_mlp(config, bias=config.bool("mlp_bias"))
    layers = layer_count(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attention if index in attended else mixer for index in range(layers)],
        [mlp] * layers,
    )


def falcon_h1(config: Config) -> ModelSpec:
    """Mamba 2 and attention side by side in every layer, on the same normed input."""
    config = config.with_defaults(_FALCON_H1)
    norm = rms(config.int("hidden_size"))
    mixer = _mixer(
        config,
        inner=config.optional_int("mamba_d_ssm"),
        gated_norm=config.bool("mamba_rms_norm"),
        out_bias=config.bool("projectors_bias"),
    )
    mlp = gated_mlp(config, bias=config.bool("mlp_bias"))
    layer = Layer(
        sublayers=(
            Sublayer(norms=(norm,), blocks=(mixer, _attention(config))),
            Sublayer(norms=(norm,), blocks=(mlp,)),
        )
    )
    return decoder(config, [layer] * layer_count(config), tied=False, final_norm=norm)


def granite_hybrid(config: Config) -> ModelSpec:
    """`layer_types` chooses the mixer; without experts the shared MLP is the only one."""
    config = config.with_defaults(_GRANITE, layers_block_type="layer_types")
    layers = layer_count(config)
    types = attention_types(config, ["linear_attention"] * layers, _LAYER_TYPES)
    attention = _attention(config, rope=config.get("position_embedding_type") == "rope")
    mixers: dict[str, Block] = {"linear_attention": _mixer(config), "full_attention": attention}
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [mixers[each] for each in types],
        [_granite_feed_forward(config)] * layers,
    )


def _attention(config: Config, *, rope: bool = True) -> Attention:
    bias = config.bool("attention_bias")
    return grouped_query_attention(config, qkv_bias=bias, out_bias=bias, rope=rope)


def _mixer(
    config: Config,
    *,
    inner: int | None = None,
    gated_norm: bool = True,
    out_bias: bool | None = None,
) -> Recurrence:
    """Mamba 2, `mamba_expand` times as wide as the hidden state unless `inner` says otherwise."""
    hidden, heads = config.int("hidden_size"), config.int("mamba_n_heads")
    width = config.int("mamba_expand") * hidden if inner is None else inner
    automatic = config.get("mamba_d_head") == "auto"
    if width % heads or (not automatic and width != heads * config.int("mamba_d_head")):
        raise config.error("mamba_n_heads", f"times mamba_d_head must be the inner width {width}")
    bias = config.bool("mamba_proj_bias")
    return mamba2_mixer(
        hidden,
        inner=width,
        heads=heads,
        groups=config.int("mamba_n_groups"),
        state=config.int("mamba_d_state"),
        kernel=config.int("mamba_d_conv"),
        in_bias=bias,
        out_bias=bias if out_bias is None else out_bias,
        conv_bias=config.bool("mamba_conv_bias"),
        gated_norm=gated_norm,
    )


def _granite_feed_forward(config: Config) -> Block:
    experts, shared = config.int("num_local_experts"), config.int("shared_intermediate_size")
    if not experts:
        return Mlp(ffn=shared, bucket="shared_experts")
    return Experts(
        experts=experts,
        top_k=config.int("num_experts_per_tok"),
        ffn=config.int("intermediate_size"),
        shared_ffn=shared or None,
    )


PARSERS = {"bamba": bamba, "falcon_h1": falcon_h1, "granitemoehybrid": granite_hybrid}
