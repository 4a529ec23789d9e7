"""Megatron's TransformerConfig names for an architecture of one's own."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from trainfit.specs.part import Count, Part, Width

LayerFrequency = Annotated[int, Field(ge=1, le=2048)]
LayerFlag = Annotated[int, Field(ge=0, le=1)]


class TransformerConfig(Part):
    """A GPT-shaped or hybrid model. Names and defaults are megatron-core's and its arguments'."""

    name: str | None = Field(None, max_length=128)
    num_layers: Annotated[int, Field(ge=1, le=2048)]
    hidden_size: Width
    num_attention_heads: Count
    vocab_size: Width = Field(
        ...,
        validation_alias=AliasChoices("vocab_size", "padded_vocab_size"),
        description="Rows of the embedding before padding.",
    )
    ffn_hidden_size: Width | None = Field(
        None,
        description="Unset: 4 * hidden_size; with swiglu two thirds of it, down to 64s.",
    )
    num_query_groups: Count | None = Field(None, description="Unset: num_attention_heads.")
    kv_channels: Width | None = Field(
        None, description="Head dimension. Unset: hidden_size / num_attention_heads."
    )
    normalization: Literal["LayerNorm", "RMSNorm"] = "LayerNorm"
    activation_func: Literal["gelu", "silu", "swiglu", "geglu", "squared_relu", "relu"] = Field(
        "gelu", description="swiglu and geglu are gated."
    )
    gated_linear_unit: bool | None = Field(None, description="Unset: what activation_func says.")
    activation_func_clamp_value: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Both factors of the gate are clamped to it before they are multiplied."
    )
    swiglu: bool = Field(False, description="The short form of activation_func swiglu.")
    add_bias_linear: bool = True
    add_qkv_bias: bool = False
    qk_layernorm: bool = False
    attention_output_gate: bool = False
    position_embedding_type: Literal["learned_absolute", "rope", "yarn", "mrope", "none"] = (
        "learned_absolute"
    )
    max_position_embeddings: Width | None = Field(
        None, description="Rows of learned positions; needed with learned_absolute."
    )
    untie_embeddings_and_output_weights: bool = False
    window_size: Count | None = None

    num_moe_experts: Count | None = Field(
        None, validation_alias=AliasChoices("num_moe_experts", "num_experts")
    )
    moe_router_topk: Count = 2
    moe_ffn_hidden_size: Width | None = Field(None, description="Unset: ffn_hidden_size.")
    moe_layer_freq: (
        LayerFrequency | Annotated[tuple[LayerFlag, ...], Field(strict=False, max_length=2048)]
    ) = Field(
        1,
        description="Every n-th layer is a mixture of experts, or a list with 1 for each that is.",
    )
    moe_shared_expert_intermediate_size: Width | None = None
    moe_shared_expert_gate: bool = False
    moe_latent_size: Width | None = None

    hybrid_layer_pattern: (
        Annotated[str, Field(max_length=4096, pattern=r"^[M*+E-]+(/[M*+E-]+)*$")] | None
    ) = Field(
        None,
        description="A symbol for each layer: M Mamba 2, * attention, + latent attention, - a "
        "feed-forward network, E experts; and behind each / the layers of a depth of multi-token "
        "prediction. Unset: every layer has attention and a feed-forward network or experts.",
        examples=["M-M*-M-ME"],
    )
    mamba_state_dim: Width = 128
    mamba_head_dim: Width = 64
    mamba_num_groups: Count = 8
    mamba_num_heads: Count | None = Field(
        None, description="Unset: 2 * hidden_size / mamba_head_dim."
    )

    multi_latent_attention: bool = False
    q_lora_rank: Width | None = Field(None, description="Unset: queries have no latent.")
    kv_lora_rank: Width | None = Field(None, description="Needed with multi_latent_attention.")
    qk_head_dim: Width = 128
    qk_pos_emb_head_dim: Width = 64
    v_head_dim: Width = 128

    mtp_num_layers: Annotated[int, Field(ge=0, le=64)] | None = None
