"""Megatron's TransformerConfig names -> ModelSpec."""

from trainfit.architectures.config import ConfigError, refused_dimensions
from trainfit.architectures.decoder import distinct
from trainfit.architectures.state_space import mamba2_mixer
from trainfit.specs.architecture import (
    Embedding,
    ModelSpec,
    MultiTokenPrediction,
    OutputLayer,
)
from trainfit.specs.blocks import (
    Attention,
    Block,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Norm,
    Recurrence,
    Sublayer,
)
from trainfit.specs.transformer_config import TransformerConfig

GATED = ("swiglu", "geglu")


def from_transformer_config(config: TransformerConfig) -> ModelSpec:
    """A GPT-shaped or hybrid model. Raises ConfigError for what is missing or contradicts."""
    with refused_dimensions():
        return _model(config)


def _model(config: TransformerConfig) -> ModelSpec:
    hidden = config.hidden_size
    norm = _norm(config, hidden)
    if config.hybrid_layer_pattern is None:
        layers = _alike(norm, config)
        depths, predicting = config.mtp_num_layers or 0, [layers[-1]]
    else:
        main, *further = config.hybrid_layer_pattern.split("/")
        layers = _hybrid(main, norm, config)
        depths, predicting = len(further), _depth(further, norm, config)
    kinds, pattern = distinct([*layers, *predicting])
    return ModelSpec(
        name=config.name,
        model_type="megatron",
        hidden_size=hidden,
        embedding=Embedding(
            rows=config.vocab_size, width=hidden, position_rows=_position_rows(config)
        ),
        layer_kinds=kinds,
        pattern=pattern[: len(layers)],
        final_norms=(norm,),
        output_layer=OutputLayer(
            rows=config.vocab_size,
            width=hidden,
            tied=not config.untie_embeddings_and_output_weights,
        ),
        mtp=MultiTokenPrediction(num_layers=depths, layer_kind=pattern[-1], norms=(norm,) * 3)
        if depths
        else None,
        max_position_embeddings=config.max_position_embeddings,
    )


def _alike(norm: Norm, config: TransformerConfig) -> list[Layer]:
    """Layers of attention and a feed-forward network or experts."""
    attention = _latent_attention(config) if config.multi_latent_attention else _attention(config)
    dense = _layer(norm, attention, _mlp(config))
    experts = _experts(config)
    sparse = dense if experts is None else _layer(norm, attention, experts)
    return [sparse if flag else dense for flag in _moe_layers(config)]


def _hybrid(symbols: str, norm: Norm, config: TransformerConfig) -> list[Layer]:
    """Layers of one block each. Source: megatron/core/models/hybrid (hybrid_layer_allocation.py,
    hybrid_layer_specs.py).
    """
    if len(symbols) != config.num_layers:
        raise ConfigError(
            "/hybrid_layer_pattern",
            f"has {len(symbols)} layers; num_layers is {config.num_layers}",
        )
    made = {symbol: _layer(norm, _block(symbol, config)) for symbol in set(symbols)}
    return [made[symbol] for symbol in symbols]


def _depth(patterns: list[str], norm: Norm, config: TransformerConfig) -> list[Layer]:
    """The layers of a depth of multi-token prediction as one, where there is any."""
    if len(set(patterns)) > 1:
        raise ConfigError("/hybrid_layer_pattern", "must have the same layers behind every /")
    if len(patterns) != (config.mtp_num_layers or len(patterns)):
        raise ConfigError(
            "/mtp_num_layers", f"is not the {len(patterns)} depths of hybrid_layer_pattern"
        )
    return [_layer(norm, *[_block(symbol, config) for symbol in each]) for each in patterns[:1]]


def _block(symbol: str, config: TransformerConfig) -> Block:
    match symbol:
        case "M":
            return _mamba(config)
        case "*":
            return _attention(config)
        case "+":
            return _latent_attention(config)
        case "-":
            return _mlp(config)
        case _:
            experts = _experts(config)
            if experts is None:
                raise ConfigError("/num_moe_experts", "is needed: hybrid_layer_pattern has an E")
            return experts


def _mamba(config: TransformerConfig) -> Recurrence:
    """Source: megatron/core/ssm/mamba_mixer.py."""
    width = config.mamba_head_dim
    heads = config.mamba_num_heads or 2 * config.hidden_size // width
    if config.mamba_num_heads is None and 2 * config.hidden_size % width:
        raise ConfigError("/mamba_head_dim", "does not divide 2 * hidden_size")
    if heads % config.mamba_num_groups:
        raise ConfigError("/mamba_num_groups", f"does not divide the {heads} heads of Mamba")
    return mamba2_mixer(
        config.hidden_size,
        inner=heads * width,
        heads=heads,
        groups=config.mamba_num_groups,
        state=config.mamba_state_dim,
        kernel=4,
        in_bias=False,
        out_bias=False,
        conv_bias=True,
    )


def _layer(norm: Norm, *blocks: Block) -> Layer:
    return Layer(sublayers=tuple(Sublayer(norms=(norm,), blocks=(each,)) for each in blocks))


def _norm(config: TransformerConfig, width: int) -> Norm:
    layer_norm = config.normalization == "LayerNorm"
    return Norm(kind="layernorm" if layer_norm else "rmsnorm", width=width, bias=layer_norm)


def _gated(config: TransformerConfig) -> bool:
    if config.gated_linear_unit is not None:
        return config.gated_linear_unit
    return config.swiglu or config.activation_func in GATED


def _ffn(config: TransformerConfig) -> int:
    """Source: Megatron-LM's arguments.py, whose --swiglu keeps the parameter count."""
    if config.ffn_hidden_size is not None:
        return config.ffn_hidden_size
    if config.swiglu:
        return max(64, 4 * config.hidden_size * 2 // 3 // 64 * 64)
    return 4 * config.hidden_size


def _attention(config: TransformerConfig) -> Attention:
    heads = config.num_attention_heads
    if config.kv_channels is None and config.hidden_size % heads:
        raise ConfigError("/kv_channels", "is needed: hidden_size does not divide by the heads")
    d = config.kv_channels or config.hidden_size // heads
    groups = config.num_query_groups or heads
    if heads % groups:
        raise ConfigError("/num_query_groups", f"does not divide the {heads} attention heads")
    qk_norm = _norm(config, d) if config.qk_layernorm else None
    return Attention(
        heads=heads,
        kv_heads=groups,
        head_dim=d,
        qkv_bias=config.add_bias_linear or config.add_qkv_bias,
        out_bias=config.add_bias_linear,
        q_norm=qk_norm,
        k_norm=qk_norm,
        gate_width=heads * d if config.attention_output_gate else 0,
        window=config.window_size,
        rope=config.position_embedding_type in ("rope", "yarn", "mrope"),
    )


def _latent_attention(config: TransformerConfig) -> LatentAttention:
    if config.kv_lora_rank is None:
        raise ConfigError("/kv_lora_rank", "is needed with multi_latent_attention")
    norm = _norm(config, config.kv_lora_rank)
    return LatentAttention(
        heads=config.num_attention_heads,
        q_lora_rank=config.q_lora_rank,
        kv_lora_rank=config.kv_lora_rank,
        qk_nope_head_dim=config.qk_head_dim,
        qk_rope_head_dim=config.qk_pos_emb_head_dim,
        v_head_dim=config.v_head_dim,
        out_bias=config.add_bias_linear,
        latent_norms=norm.kind if config.qk_layernorm else None,
    )


def _mlp(config: TransformerConfig) -> Mlp:
    return Mlp(
        ffn=_ffn(config),
        gated=_gated(config),
        clamped=config.activation_func_clamp_value is not None,
        bias=config.add_bias_linear,
    )


def _experts(config: TransformerConfig) -> Experts | None:
    if config.num_moe_experts is None:
        return None
    gated = _gated(config)
    return Experts(
        experts=config.num_moe_experts,
        top_k=config.moe_router_topk,
        ffn=config.moe_ffn_hidden_size or _ffn(config),
        gated=gated,
        clamped=config.activation_func_clamp_value is not None,
        bias=config.add_bias_linear,
        latent=config.moe_latent_size,
        shared_ffn=config.moe_shared_expert_intermediate_size,
        shared_gated=gated,
        shared_bias=config.add_bias_linear,
        shared_gate=config.moe_shared_expert_gate,
    )


def _moe_layers(config: TransformerConfig) -> tuple[bool, ...]:
    """Which layers are mixtures: every n-th from the first, or as the list says."""
    if config.num_moe_experts is None:
        return (False,) * config.num_layers
    frequency = config.moe_layer_freq
    if isinstance(frequency, int):
        return tuple(index % frequency == 0 for index in range(config.num_layers))
    if len(frequency) != config.num_layers:
        raise ConfigError(
            "/moe_layer_freq",
            f"lists {len(frequency)} layers; the model has {config.num_layers}",
        )
    return tuple(flag == 1 for flag in frequency)


def _position_rows(config: TransformerConfig) -> int:
    if config.position_embedding_type != "learned_absolute":
        return 0
    if config.max_position_embeddings is None:
        raise ConfigError(
            "/max_position_embeddings",
            "is needed with learned_absolute positions; or name position_embedding_type",
        )
    return config.max_position_embeddings
