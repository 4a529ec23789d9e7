"""Jamba: Mamba layers, attention now and then, experts in every other layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_decoder,
    rms,
)
from trainfit.architectures.state_space import mamba_mixer, time_step_rank
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Block, Experts, Recurrence

_JAMBA = {
    "vocab_size": 65536,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": "auto",
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
}


def jamba(config: Config) -> ModelSpec:
    """One expert is a dense feed-forward; attention has no positions."""
    config = config.with_defaults(_JAMBA, num_local_experts="num_experts")
    layers = range(layer_count(config))
    attention_at, experts_at = _every(config, "attn_layer"), _every(config, "expert_layer")
    attention, mixer = grouped_query_attention(config, rope=False), _mixer(config)
    dense, sparse = gated_mlp(config), _feed_forward(config)
    return pre_norm_decoder(
        config,
        rms(config.int("hidden_size")),
        [attention if i % attention_at[0] == attention_at[1] else mixer for i in layers],
        [sparse if i % experts_at[0] == experts_at[1] else dense for i in layers],
    )


def _every(config: Config, key: str) -> tuple[int, int]:
    """The period at which a kind of layer returns, and where in it."""
    period, offset = config.int(f"{key}_period"), config.int(f"{key}_offset")
    if not 0 <= offset < period:
        raise config.error(f"{key}_offset", f"must be smaller than {key}_period")
    return period, offset


def _mixer(config: Config) -> Recurrence:
    hidden, state = config.int("hidden_size"), config.int("mamba_d_state")
    rank = time_step_rank(config, "mamba_dt_rank")
    return mamba_mixer(
        hidden,
        inner=config.int("mamba_expand") * hidden,
        state=state,
        rank=rank,
        kernel=config.int("mamba_d_conv"),
        bias=config.bool("mamba_proj_bias"),
        conv_bias=config.bool("mamba_conv_bias"),
        norms=(rms(rank), rms(state), rms(state)),
    )


def _feed_forward(config: Config) -> Block:
    experts = config.int("num_experts")
    if experts <= 1:
        return gated_mlp(config)
    return Experts(
        experts=experts,
        top_k=config.int("num_experts_per_tok"),
        ffn=config.int("intermediate_size"),
    )


PARSERS = {"jamba": jamba}
