"""ModelSpec -> Megatron's TransformerConfig names, for a model that these can say."""

from __future__ import annotations

from typing import Any

from trainfit.architectures.config import ConfigError
from trainfit.architectures.megatron import from_transformer_config
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Experts, LatentAttention, Mlp, Norm
from trainfit.specs.transformer_config import TransformerConfig

Names = dict[str, Any]


def as_transformer_config(model: ModelSpec) -> TransformerConfig:
    """The names and values that make this model. Raises ConfigError where none do.

    They are read back to see that they do: the same parameters in the same places.
    """
    layers = [model.layer_kinds[kind] for kind in model.pattern]
    blocks = [block for layer in layers for block in layer.blocks]
    mixers = [each for each in blocks if isinstance(each, Attention | LatentAttention)]
    if not mixers or any(each != mixers[0] for each in mixers):
        raise _unsaid("its layers differ in their attention, or have none")
    config = TransformerConfig.model_validate(
        {
            "name": model.name,
            "num_layers": model.num_layers,
            "hidden_size": model.hidden_size,
            "vocab_size": model.embedding.rows,
            "normalization": _normalization(model.final_norms),
            "max_position_embeddings": model.embedding.position_rows
            or model.max_position_embeddings,
            "position_embedding_type": _positions(model, mixers[0]),
            "untie_embeddings_and_output_weights": not model.output_layer.tied,
            "mtp_num_layers": model.mtp.num_layers if model.mtp is not None else None,
            **_mixer(mixers[0]),
            **_feed_forward(blocks),
            **_experts(blocks, [layer.has_experts for layer in layers]),
        }
    )
    _check(model, from_transformer_config(config))
    return config


def _normalization(norms: tuple[Norm, ...]) -> str:
    return "LayerNorm" if any(each.kind == "layernorm" for each in norms) else "RMSNorm"


def _positions(model: ModelSpec, mixer: Attention | LatentAttention) -> str:
    if model.embedding.position_rows:
        return "learned_absolute"
    return "rope" if isinstance(mixer, LatentAttention) or mixer.rope else "none"


def _mixer(mixer: Attention | LatentAttention) -> Names:
    if isinstance(mixer, LatentAttention):
        return {
            "multi_latent_attention": True,
            "num_attention_heads": mixer.heads,
            "q_lora_rank": mixer.q_lora_rank,
            "kv_lora_rank": mixer.kv_lora_rank,
            "qk_head_dim": mixer.qk_nope_head_dim,
            "qk_pos_emb_head_dim": mixer.qk_rope_head_dim,
            "v_head_dim": mixer.v_head_dim,
            "qk_layernorm": mixer.latent_norms is not None,
            "add_bias_linear": mixer.out_bias,
        }
    return {
        "num_attention_heads": mixer.heads,
        "num_query_groups": mixer.kv_heads,
        "kv_channels": mixer.head_dim,
        "qk_layernorm": mixer.q_norm is not None,
        "attention_output_gate": mixer.gate_width > 0,
        "add_bias_linear": mixer.out_bias,
        "add_qkv_bias": mixer.qkv_bias and not mixer.out_bias,
        "window_size": mixer.window,
    }


def _feed_forward(blocks: list[Block]) -> Names:
    """Megatron takes the width of experts for that of dense layers where a model has experts
    alone.
    """
    dense = next((each for each in blocks if isinstance(each, Mlp)), None)
    experts = next((each for each in blocks if isinstance(each, Experts)), None)
    if dense is None and experts is None:
        raise _unsaid("its layers have no feed-forward network")
    gated = dense.gated if dense is not None else bool(experts and experts.gated)
    return {
        "ffn_hidden_size": dense.ffn if dense is not None else experts and experts.ffn,
        "activation_func": "swiglu" if gated else "gelu",
    }


def _experts(blocks: list[Block], sparse: list[bool]) -> Names:
    experts = next((each for each in blocks if isinstance(each, Experts)), None)
    if experts is None:
        return {}
    return {
        "num_moe_experts": experts.experts,
        "moe_router_topk": experts.top_k,
        "moe_ffn_hidden_size": experts.ffn,
        "moe_layer_freq": 1 if all(sparse) else [int(each) for each in sparse],
        "moe_shared_expert_intermediate_size": experts.shared_ffn,
        "moe_shared_expert_gate": experts.shared_gate,
        "moe_latent_size": experts.latent,
    }


def _check(model: ModelSpec, said: ModelSpec) -> None:
    """Refuse a model that the names turn into another. Megatron keeps what balances the experts in
    a buffer, of which it says nothing here.
    """
    if _decisive(model) != _decisive(said):
        raise _unsaid("it has what a GPT-shaped model has not")


def _decisive(model: ModelSpec) -> Names:
    layers = [model.layer_kinds[kind] for kind in model.pattern]
    part = model.model_dump(
        include={"embedding", "final_norms", "output_layer", "extras", "residual_streams"}
    )
    part["layers"] = [_without_balance(layer.model_dump()) for layer in layers]
    part["encoder"] = model.encoder_parameters
    part["mtp"] = (
        (
            model.mtp.num_layers,
            _without_balance(model.layer_kinds[model.mtp.layer_kind].model_dump()),
        )
        if model.mtp is not None
        else None
    )
    return part


def _without_balance(layer: Names) -> Names:
    for sublayer in layer["sublayers"]:
        for block in sublayer["blocks"]:
            block.pop("correction_bias", None)
    return layer


def _unsaid(why: str) -> ConfigError:
    return ConfigError("", f"Megatron's argument names do not say this model: {why}")
