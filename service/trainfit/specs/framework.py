"""The training framework and its own switches."""

from typing import Annotated, Literal

from pydantic import Field

from trainfit.specs.part import Part


class Megatron(Part):
    """Megatron-LM or Megatron-Bridge."""

    name: Literal["megatron"]
    transformer_impl: Literal["transformer_engine", "local"] = Field(
        "transformer_engine", description="Whose layers run."
    )
    make_vocab_size_divisible_by: Annotated[int, Field(ge=1, le=1_048_576)] = Field(
        128, description="The vocabulary is padded to a multiple of this times tp."
    )
    gradient_accumulation_fusion: bool = Field(
        True, description="Weight gradients are added to the main gradients within the GEMM."
    )
    overlap_grad_reduce: bool = Field(True, description="Reduce gradients during backward.")
    pad_buckets_for_high_nccl_busbw: bool = Field(
        False, description="Pad gradient buckets to multiples of 2^16 elements."
    )
    overlap_param_gather: bool = Field(True, description="Gather parameters during forward.")
    defer_embedding_wgrad_compute: bool = Field(
        False, description="Compute the output layer's weight gradient after the pipeline drains."
    )
    wgrad_deferral_limit: Annotated[int, Field(ge=0, le=16_777_216)] = Field(
        0, description="Micro-batches of which that gradient is deferred; 0: of all."
    )
    deallocate_pipeline_outputs: bool = Field(
        True, description="Free a stage's output once it was sent."
    )
    overlap_moe_expert_parallel_comm: bool = Field(
        False, description="Exchange the tokens of one micro-batch while another is computed."
    )
    create_attention_mask_in_dataloader: bool = Field(
        False,
        description="The data loader sends a mask [b, 1, s, s] with every micro-batch. "
        "Megatron-LM's own default is true, Megatron-Bridge's false.",
    )
    deterministic_mode: bool = Field(
        False, description="Bitwise reproducible kernels; cuBLAS then takes a larger workspace."
    )
    expandable_segments: bool = Field(
        False, description="PyTorch's allocator grows segments rather than caching blocks."
    )


class Torchtitan(Part):
    """torchtitan."""

    name: Literal["torchtitan"]


class Transformers(Part):
    """Hugging Face transformers with FSDP, DDP or DeepSpeed."""

    name: Literal["transformers"]


Framework = Annotated[Megatron | Torchtitan | Transformers, Field(discriminator="name")]
