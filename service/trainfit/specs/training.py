"""One training step: batch, precision, optimizer, recompute, attention, loss, experts."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from trainfit.specs.honoured import (
    FOLLOWED_OUTSIDE_NANOTRON,
    IGNORED_OUTSIDE_MEGATRON,
    IGNORED_UNDER_MEGATRON,
    MEGATRON,
    OF_MEGATRON,
    OF_PYTORCH,
    OF_TORCHTITAN,
    OF_TRANSFORMERS,
    OUTSIDE_NANOTRON,
    PYTORCH,
    Frameworks,
    OnlyValues,
)
from trainfit.specs.loss import Loss
from trainfit.specs.optimizers import OPTIMIZERS, Implementation, OptimizerName
from trainfit.specs.parallelism import NOT_IN_NANOTRON
from trainfit.specs.part import LayerCount, Part, Probability, TokenCount
from trainfit.specs.peft import Names, Peft
from trainfit.specs.precision import Dtype, Precision, PrecisionPreset

Dispatcher = Literal["alltoall", "allgather", "flex"]
FlexBackend = Literal["deepep", "hybridep"]
AttentionBackend = Literal["auto", "flash", "fused", "unfused", "eager", "sdpa"]
SmCount = Annotated[int, Field(ge=2, le=256, multiple_of=2)]
CapacityFactor = Annotated[float, Field(gt=0.0, le=1024.0)]
OffloadModule = Literal[
    "attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"
]
OffloadModules = Annotated[tuple[OffloadModule, ...], Field(strict=False, max_length=16)]
RecomputeModule = Literal[
    "core_attn", "mlp", "moe", "shared_experts", "layernorm", "moe_act", "mla_up_proj"
]
BACKENDS: Mapping[str, Frameworks] = {
    **dict.fromkeys(("fused", "unfused"), MEGATRON),
    **dict.fromkeys(("eager", "sdpa"), PYTORCH),
}


MuonTensorParallelism = Literal["duplicated", "distributed", "blockwise"]


class Optimizer(Part):
    """The optimizer and the data types of its states."""

    name: OptimizerName = Field(
        "adam",
        description="What each keeps as moments: "
        + ", ".join(f"{name} {each.about}" for name, each in OPTIMIZERS.items())
        + ".",
    )
    exp_avg_dtype: Annotated[Dtype | None, NOT_IN_NANOTRON] = Field(
        None, description="First moment. Unset: fp32 under Megatron, else as the parameters."
    )
    exp_avg_sq_dtype: Annotated[Dtype | None, NOT_IN_NANOTRON] = Field(
        None, description="Second moment. Unset: fp32 under Megatron, else as the parameters."
    )
    momentum: Annotated[Probability | None, IGNORED_UNDER_MEGATRON] = Field(
        None,
        description="sgd: with 0 PyTorch's keeps no state, but TransformerEngine's does. Unset: "
        "0.9 under Megatron, else 0.",
    )
    paged: Annotated[bool, OF_PYTORCH] = Field(
        False, description="bitsandbytes: states in memory that pages out to the host."
    )
    embedding_moments_in_fp32: Annotated[bool | None, OF_PYTORCH] = Field(
        None,
        description="adamw8bit, lion8bit: keep the moments of embeddings in fp32. Unset: so under "
        "transformers without DeepSpeed, as Trainer has it since 4.52.",
    )
    in_backward: Annotated[bool, OF_PYTORCH] = Field(
        False, description="Step each parameter as soon as its gradient is there, and free that."
    )
    precision_aware: Annotated[bool, OF_MEGATRON] = Field(
        False,
        validation_alias=AliasChoices("precision_aware", "use_precision_aware_optimizer"),
        description="Read gradients in their own data type, and keep of fp32 master weights only "
        "the 16 bits that bf16 weights lack.",
    )
    implementation: Annotated[Implementation, OF_PYTORCH] = Field(
        "fused", description="What the step keeps for a moment."
    )
    muon_nesterov: Annotated[bool, OF_MEGATRON] = Field(
        False, description="muon: look ahead by a momentum of its own, in fp32, for each matrix."
    )
    muon_tp_mode: Annotated[MuonTensorParallelism, OF_MEGATRON] = Field(
        "blockwise",
        description="muon: of a matrix that tp ranks share each orthogonalises its own part "
        "(blockwise), or the whole, which it gathers (duplicated), or they do so together "
        "(distributed).",
    )
    cpu_offload_fraction: Annotated[Probability, OF_MEGATRON] = Field(
        0.0, description="Share of the optimizer states kept in host memory."
    )


class Recompute(Part):
    """Which activations are dropped in forward and made again in backward."""

    granularity: Literal["selective", "full"] | None = Field(
        None,
        validation_alias=AliasChoices("granularity", "recompute_granularity"),
        description="Whole layers (full) or parts of them (selective): modules under Megatron; "
        "under torchtitan every operation but attention and every second matrix product.",
    )
    method: Annotated[Literal["uniform", "block"] | None, OnlyValues({"block": MEGATRON})] = Field(
        None,
        validation_alias=AliasChoices("method", "recompute_method"),
        description="full: every group of num_layers layers, or the first num_layers of a chunk.",
    )
    num_layers: Annotated[LayerCount | None, IGNORED_OUTSIDE_MEGATRON] = Field(
        None,
        validation_alias=AliasChoices("num_layers", "recompute_num_layers"),
        description="full: layers of a group (uniform) or of a chunk (block). Unset: 1.",
    )
    modules: Annotated[tuple[RecomputeModule, ...] | None, OF_MEGATRON] = Field(
        None,
        strict=False,
        validation_alias=AliasChoices("modules", "recompute_modules"),
        description="selective: what is made again. Unset: core_attn.",
    )
    distribute_saved_activations: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False, description="full: share a saved layer input out over tensor-parallel ranks."
    )
    every_nth_layer: Annotated[int, Field(ge=1, le=2048), OF_PYTORCH] = Field(
        1, description="full, outside Megatron: recompute one layer in so many."
    )
    frozen_layers: Annotated[bool, OF_PYTORCH] = Field(
        True,
        description="Outside Megatron: recompute layers that are not trained, too. LLaMA-Factory "
        "does not.",
    )
    use_reentrant: Annotated[bool, OF_TRANSFORMERS] = Field(
        False,
        description="full: as torch.utils.checkpoint has it, the default before transformers 5.0. "
        "FSDP1 then keeps the inputs and their gradients of layers that are frozen but for "
        "adapters.",
    )


class AttentionOptions(Part):
    """The kernel that computes softmax attention."""

    backend: Annotated[AttentionBackend, OnlyValues(BACKENDS)] = Field(
        "auto", description="fused is cuDNN's; unfused keeps the scores; auto: by the GPU."
    )
    repeats_kv: Annotated[bool, OF_PYTORCH] = Field(
        False,
        description="Outside Megatron: keys and values are copied to every query head before the "
        "kernel, as torchtune, litgpt and older torchtitan do.",
    )
    dropout: Probability | None = Field(
        None,
        description="Dropout of the attention scores. Unset: what the config says under "
        "transformers, else 0.",
    )


class MoeOptions(Part):
    """How tokens reach their experts."""

    token_dispatcher_type: Annotated[Dispatcher, IGNORED_OUTSIDE_MEGATRON] = Field(
        "alltoall", description="How tokens travel between expert-parallel ranks."
    )
    flex_dispatcher_backend: Annotated[FlexBackend, IGNORED_OUTSIDE_MEGATRON] = Field(
        "deepep", description="Whose kernels the dispatcher flex runs."
    )
    expert_capacity_factor: Annotated[CapacityFactor | None, OF_MEGATRON] = Field(
        None, description="Rows an expert takes, as a multiple of its balanced share."
    )
    pad_expert_input_to_capacity: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False, description="Fill every expert up to its capacity."
    )
    imbalance_factor: Annotated[float, Field(ge=1.0, le=1024.0), NOT_IN_NANOTRON] = Field(
        1.0, description="Rows on the most loaded rank / rows when routing is balanced."
    )
    router_force_load_balancing: Annotated[bool, OF_MEGATRON] = Field(
        False,
        validation_alias=AliasChoices(
            "router_force_load_balancing", "moe_router_force_load_balancing"
        ),
        description="Choose experts at random, as benchmarks do, so that ranks receive about as "
        "many rows each.",
    )
    router_dtype: Annotated[Literal["fp32", "bf16"] | None, IGNORED_OUTSIDE_MEGATRON] = Field(
        None, description="Data type of the routing probabilities. Unset: that of the activations."
    )
    grouped_gemm: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        True, description="Run all experts of a rank in one kernel."
    )
    fp8_recipe: Annotated[Literal["mxfp8"] | None, OF_TORCHTITAN] = Field(
        None,
        description="torchtitan: how grouped products of experts multiply in fp8, whatever linears "
        "do. Unset: they do not.",
    )
    permute_fusion: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        True, description="Fuse the permutation of tokens."
    )
    shared_expert_overlap: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False, description="Run shared experts beside the dispatch of tokens."
    )
    deepep_num_sms: Annotated[SmCount, IGNORED_OUTSIDE_MEGATRON] = Field(
        20,
        validation_alias=AliasChoices("deepep_num_sms", "moe_deepep_num_sms"),
        description="Multiprocessors that run DeepEP's kernels; two share a part of its buffer.",
    )
    expert_rank_capacity_factor: Annotated[CapacityFactor | None, OF_MEGATRON] = Field(
        None,
        validation_alias=AliasChoices(
            "expert_rank_capacity_factor", "moe_expert_rank_capacity_factor"
        ),
        description="HybridEP: room for rows on a rank, as a multiple of its balanced share, "
        "whatever arrives.",
    )
    paged_stash: Annotated[bool, OF_MEGATRON] = Field(
        False,
        validation_alias=AliasChoices("paged_stash", "moe_paged_stash"),
        description="Keep of that room only the rows that arrived, in pages of one buffer.",
    )
    paged_stash_buffer_size_factor_cuda: Annotated[CapacityFactor, OF_MEGATRON] = Field(
        1.1,
        validation_alias=AliasChoices(
            "paged_stash_buffer_size_factor_cuda", "moe_paged_stash_buffer_size_factor_cuda"
        ),
        description="paged_stash: rows that the buffer has room for, as a multiple of those that "
        "arrive on average.",
    )
    router_padding_for_quantization: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False,
        validation_alias=AliasChoices(
            "router_padding_for_quantization",
            "moe_router_padding_for_quantization",
            "moe_router_padding_for_fp8",
        ),
        description="fp8 and fp4: the router fills up the rows of each expert to what their "
        "products ask for.",
    )


class MtpOptions(Part):
    """Multi-token prediction."""

    num_layers: Annotated[int, Field(ge=0, le=64)] = Field(
        ..., description="Depths that are trained; 0 leaves out those that a config declares."
    )


class Lengths(Part):
    """How long samples are that are neither packed nor all padded to seq_length: a micro-batch is
    as long as the longest of its samples.
    """

    mean: TokenCount | None = Field(
        None,
        description="Tokens of a sample on average; how they spread about it is not known, but "
        "that seq_length cuts them. Instead of quantiles.",
    )
    quantiles: Annotated[tuple[TokenCount, ...], Field(strict=False, max_length=127)] = Field(
        (),
        description="Lengths in ascending order that part samples into groups of one size: the "
        "median alone, three quartiles, nine deciles. With neither, any length is as likely.",
    )
    pad_to_multiple_of: TokenCount = Field(
        1, description="Tokens to a multiple of which a micro-batch is padded."
    )
    group_by_length: bool = Field(
        False,
        description="Samples of about one length are put together, and the longest come first, as "
        "with Trainer's group_by_length.",
    )


ImageTokens = Annotated[int, Field(ge=0, le=16_777_216)]


class Training(Part):
    """What one step computes."""

    micro_batch_size: Annotated[int, Field(ge=1, le=65_536)] = Field(
        1, description="Samples of one micro-batch on one rank (b)."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=16_777_216)] | None = Field(
        None, description="Samples of one step over all ranks."
    )
    num_microbatches: Annotated[int, Field(ge=1, le=16_777_216)] | None = Field(
        None,
        description="Micro-batches of one step, in place of global_batch_size. With neither, "
        "enough to fill the pipeline.",
    )
    seq_length: Annotated[int, Field(ge=1, le=16_777_216)] = Field(
        4096, description="Tokens of one sample (s); of the longest, where lengths differ."
    )
    lengths: Annotated[Lengths | None, OF_TRANSFORMERS] = Field(
        None,
        description="Unset: every sample has seq_length, packed or padded to it. {}: samples are "
        "padded to the longest of their micro-batch, and nobody knows how long they are.",
    )
    precision: PrecisionPreset | Precision = Field(
        "bf16",
        title="TrainingPrecision",
        description="A preset, or each data type. bf16 under Megatron: fp32 gradients and master "
        "weights; under torchtitan and FSDP: fp32 weights that are gathered in bf16; under DDP: "
        "autocast. bf16-pure: nothing but bf16.",
    )
    optimizer: Optimizer = Field(default_factory=Optimizer)
    recompute: Recompute = Field(default_factory=Recompute)
    offload_modules: Annotated[OffloadModules, OF_MEGATRON] = Field(
        (), description="Modules whose kept inputs wait for backward in host memory."
    )
    attention: AttentionOptions = Field(default_factory=AttentionOptions)
    hidden_dropout: Probability | None = Field(
        None,
        description="Dropout before each residual addition. Unset: what the config says under "
        "transformers, else 0.",
    )
    offload_activations: Annotated[bool, OF_PYTORCH] = Field(
        False, description="Outside Megatron: what is saved for backward waits in host memory."
    )
    loss: Loss = Field(default_factory=Loss)
    moe: MoeOptions = Field(default_factory=MoeOptions)
    mtp: MtpOptions | None = Field(None, description="Unset: the depths that the config declares.")
    image_tokens: Annotated[ImageTokens | None, FOLLOWED_OUTSIDE_NANOTRON] = Field(
        None,
        description="Tokens of each sample that stand for images, or for sounds where the model "
        "hears, as the text reads them: an image of Qwen-VL's makes one of four patches, of Gemma "
        "3's one of sixteen, a tile of LLaVA-NeXT's 576, padding among them; a clip of up to 30 "
        "seconds counts as whole, as the tower reads it: 375 of Voxtral's, 750 of Qwen2-Audio's. "
        "0: none. Unset: not known, so that bounds span from none to all of a sample, or a warning "
        "says that they do not.",
    )
    peft: Annotated[Peft | None, OUTSIDE_NANOTRON] = Field(None)
    frozen: Annotated[Names, OUTSIDE_NANOTRON] = Field(
        (),
        description="Modules that are not trained, by name: vision_tower (of sound too), "
        "multi_modal_projector, language_model; outside Megatron embed_tokens, lm_head, norm (all "
        "norms), final_norm and router, too.",
    )
    num_frozen_layers: Annotated[int, Field(ge=0, le=2048), OF_PYTORCH] = Field(
        0, description="Outside Megatron: so many first layers are not trained."
    )
    num_frozen_last_layers: Annotated[int, Field(ge=0, le=2048), OF_PYTORCH] = Field(
        0, description="Outside Megatron: so many last layers are not trained."
    )
