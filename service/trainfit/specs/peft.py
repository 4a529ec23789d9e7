"""What is trained in place of a model's weights, or beside them."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from trainfit.specs.part import Count, Part, Probability

Names = Annotated[tuple[str, ...], Field(strict=False, max_length=256)]
BaseDtype = Literal["fp32", "bf16", "fp16", "fp32-norms"]


class FrozenBase(Part):
    """Weights that are not trained, below what is."""

    quantization: Literal["nf4", "int8"] | None = Field(
        None, description="How the frozen matrices are stored. Unset: as the other parameters."
    )
    double_quantization: bool = Field(
        False, description="nf4: quantise the scales too (bnb_4bit_use_double_quant)."
    )
    quantize_experts: bool = Field(
        False,
        description="Quantise the experts' matrices with the others, as transformers before 5.0 "
        "had it. Since then they are stacked parameters, which bitsandbytes leaves as they are "
        "unless set otherwise (axolotl's quantize_moe_experts).",
    )
    base_dtype: BaseDtype | None = Field(
        None,
        description="Under mixed precision: frozen weights that are not quantised. Unset: bf16 "
        "under autocast, as transformers loads most checkpoints; under FSDP and beside quantised "
        "ones fp32, as PEFT's prepare_model_for_kbit_training leaves them. fp32-norms: norms in "
        "fp32, embedding and head in bf16, as TRL leaves them beside nf4 under bf16.",
    )


AdaptedPart = Literal["qkv", "o", "mlp"]
"""Products of a layer that may run with their adapters as one function."""


class Lora(FrozenBase):
    """Adapters of low rank beside the linears."""

    method: Literal["lora"] = Field(..., description="What is trained in place of the weights.")
    r: Count = Field(8, description="Rank of the adapters.")
    target_modules: Literal["all-linear"] | Names = Field(
        "all-linear",
        description="Linears that get an adapter, by name: under Megatron linear_qkv, linear_proj, "
        "linear_fc1 and linear_fc2, say. Routed experts of a rank share theirs there.",
    )
    modules_to_save: Names = Field((), description="Modules that are trained as a whole, by name.")
    dropout: Probability = Field(0.0, description="Dropout of the adapters' inputs.")
    adapter_dtype: Literal["fp32", "bf16"] | None = Field(
        None, description="Unset: fp32, as PEFT casts adapters of a bf16 model."
    )
    decomposed: bool = Field(
        False,
        validation_alias=AliasChoices("decomposed", "use_dora"),
        description="Learn the length of each row of a matrix beside its direction (DoRA).",
    )
    fused: Annotated[tuple[AdaptedPart, ...], Field(strict=False, max_length=3)] = Field(
        (),
        description="Products of a layer that run with their adapters as one function, which keeps "
        "what it reads and makes the rest again: axolotl's lora_qkv_kernel, lora_o_kernel and "
        "lora_mlp_kernel.",
    )


class PromptTuning(FrozenBase):
    """Embeddings of virtual tokens before every sample."""

    method: Literal["prompt_tuning"]
    num_virtual_tokens: Count = Field(
        ..., description="Tokens before each sample, beside those of seq_length."
    )


class PTuning(FrozenBase):
    """Embeddings of virtual tokens before every sample, made by an encoder."""

    method: Literal["p_tuning"]
    num_virtual_tokens: Count = Field(..., description="Tokens before each sample.")
    encoder_reparameterization_type: Literal["MLP", "LSTM"] = Field(
        "MLP", description="p_tuning: what makes the embeddings."
    )
    encoder_hidden_size: Count | None = Field(
        None, description="Width of the encoder. Unset: as wide as what it makes."
    )
    encoder_num_layers: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="p_tuning: layers of the LSTM."
    )


class PrefixTuning(FrozenBase):
    """Keys and values of virtual tokens before those of every sample, in every layer."""

    method: Literal["prefix_tuning"]
    num_virtual_tokens: Count = Field(..., description="Tokens before each sample.")
    prefix_projection: bool = Field(
        False, description="prefix_tuning: two linears make the keys and values from embeddings."
    )
    encoder_hidden_size: Count | None = Field(
        None, description="Width between the linears. Unset: that of the keys of all heads."
    )


Peft = Annotated[Lora | PromptTuning | PTuning | PrefixTuning, Field(discriminator="method")]
"""Parameter-efficient fine-tuning, as PEFT does it."""
