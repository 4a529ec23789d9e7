"""The training framework and its own switches."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, AliasChoices, Field

from trainfit.specs.part import MAX_SAFE_INTEGER, Part

FrameworkName = Literal["megatron", "torchtitan", "transformers", "nanotron"]

CudaGraphs = Literal["none", "local", "transformer_engine", "full_iteration"]
CudaGraphScope = Literal["attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"]
OF_MIXERS: CudaGraphScope = "mamba"
"""Graphs of what mixes tokens without attention, whatever it is called."""

Elements = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
"""A number of elements of a buffer."""

WholeBlocks = Annotated[
    int | None,
    Field(
        ge=20 * 2**20,
        le=2**40,
        multiple_of=2**20,
        description="PyTorch's allocator splits no block of so many bytes or more: it serves no "
        "request below that, nor one by 20 MiB smaller (max_split_size_mb). Where the order of "
        "requests is not known, all of the GPU may come to be reserved. Unset: it splits all.",
    ),
]


def _power_of_two(value: int) -> int:
    if value.bit_count() != 1:
        raise ValueError("must be a power of two")
    return value


Divisions = Annotated[
    tuple[Annotated[int, Field(ge=1, le=256), AfterValidator(_power_of_two)], ...],
    Field(
        max_length=16,
        strict=False,
        description="PyTorch's allocator rounds requests up to one of so many equal parts between "
        "two powers of two: below 2 MiB, from 2, from 4 MiB ..., and the last for all beyond "
        "(roundup_power2_divisions). Counts in what is reserved.",
    ),
]


class Megatron(Part):
    """Megatron-LM or Megatron-Bridge."""

    called: ClassVar = "Megatron"
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
    use_layer_wise_param_layout: bool = Field(
        True,
        description="Muon with states that are shared out: ranks have equal parts of the rest, and "
        "whole matrices. Off, all parameters are dealt out whole by their size, and one rank holds "
        "all states of an embedding.",
    )
    pad_buckets_for_high_nccl_busbw: bool = Field(
        False, description="Pad gradient buckets to multiples of 2^16 elements."
    )
    overlap_param_gather: bool = Field(
        True,
        description="Gather parameters during forward. Changes no memory: they are gathered into "
        "the buffer that holds them for the whole step, and Megatron-FSDP gathers a unit at a time "
        "in any case where it shares weights out.",
    )
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
        False,
        description="Exchange the tokens of one micro-batch while another is computed: a forward "
        "runs beside a backward, layer by layer.",
    )
    create_attention_mask_in_dataloader: bool = Field(
        False,
        description="The data loader sends a mask [b, 1, s, s] with every micro-batch. "
        "Megatron-LM's own default is true, Megatron-Bridge's false.",
    )
    bias_activation_fusion: bool = Field(
        True,
        description="One kernel adds the bias, activates, gates and weights. Without it a gated "
        "network keeps both factors of the gate. Megatron-LM's --no-bias-swiglu-fusion, and "
        "--no-bias-gelu-fusion of other activations, which goes with --disable-bias-linear.",
    )
    use_fused_weighted_squared_relu: bool = Field(
        False,
        description="One kernel squares what experts' relu leaves and weights it, which otherwise "
        "keeps the squares as well.",
    )
    mtp_use_repeated_layer: bool = Field(
        False,
        description="All depths of multi-token prediction run the weights of one, whose "
        "activations each keeps.",
    )
    delay_wgrad_compute: bool = Field(
        False,
        description="Changes no memory: what weight gradients are made of waits for the exchange "
        "that follows, beside which less is alive than at the peak.",
    )
    tp_comm_overlap: bool = Field(
        False,
        description="Communicate beside the products of tensor-parallel linears, through buffers "
        "of TransformerEngine that lie outside PyTorch.",
    )
    use_transformer_engine_op_fuser: bool = Field(
        False,
        description="Changes no memory: TransformerEngine's fused operations keep what its modules "
        "keep.",
    )
    cuda_graph_impl: CudaGraphs = Field(
        "none",
        description="What captures CUDA graphs: of layers Megatron (local) or TransformerEngine, "
        "or one of forwards and backwards together (full_iteration). What is captured lives in a "
        "pool of its own.",
    )
    cuda_graph_scope: Annotated[tuple[CudaGraphScope, ...], Field(strict=False, max_length=8)] = (
        Field(
            (),
            validation_alias=AliasChoices("cuda_graph_scope", "cuda_graph_modules"),
            description="local, transformer_engine: the parts of a layer that are captured. Empty: "
            "all of it.",
        )
    )
    cuda_graph_warmup_steps: Annotated[int, Field(ge=0, le=1_048_576)] = Field(
        3,
        description="transformer_engine, full_iteration: steps that run before graphs are "
        "captured. With 0 no step ever has the activations that graphs have, and they are "
        "captured before there are moments.",
    )
    cpu_offloading_num_layers: Annotated[int, Field(ge=0, le=2048)] = Field(
        0,
        description="So many layers keep what backward reads in host memory. It goes with one "
        "pipeline stage.",
    )
    fsdp_double_buffer: bool = Field(
        False,
        description="Megatron-FSDP gathers and reduces the layers of the commonest size in two "
        "buffers that it keeps.",
    )
    nccl_ub: bool = Field(
        False,
        description="Buffers of data-parallel communication come from NCCL, registered with it. "
        "Megatron-FSDP then has fsdp_double_buffer.",
    )
    tower_impl: Literal["transformers", "transformer_engine"] | None = Field(
        None,
        description="Whose modules a tower of images or sounds is made of: transformers', whole on "
        "every tensor-parallel rank, or Megatron's, whose matrices these share out. Unset: as "
        "Megatron-Bridge has it, Megatron's for Qwen3-VL and Qwen3.5, else transformers'.",
    )
    recompute_tower: bool = Field(
        False,
        description="Layers of a tower of transformers' modules keep their input only. Those of "
        "Megatron's are recomputed as the text's are.",
    )
    deterministic_mode: bool = Field(
        False, description="Bitwise reproducible kernels; cuBLAS then takes a larger workspace."
    )
    expandable_segments: bool = Field(
        False, description="PyTorch's allocator grows segments rather than caching blocks."
    )
    max_split_size_bytes: WholeBlocks = None
    roundup_power2_divisions: Divisions = ()


class Torchtitan(Part):
    """torchtitan."""

    called: ClassVar = "torchtitan"
    name: Literal["torchtitan"]
    compile: bool = Field(False, description="Compile each transformer block (torch.compile).")
    fsdp_reshard_after_forward: Literal["default", "always", "never"] = Field(
        "default",
        description="Let go of a block's gathered weights after its forward. default: yes, unless "
        "there is a pipeline.",
    )
    shard_embedding_and_head_apart: bool = Field(
        True,
        description="The embedding, and the final norm with the head, are FSDP units of their own; "
        "else they belong to the root. Up to v0.1.0 they did, and attention copied keys and "
        "values to every query head.",
    )
    fuse_qkv: bool = Field(
        False,
        description="Queries, keys and values come from one product, of which they are copied. "
        "After v0.2.2 torchtitan has it so, since June 2026.",
    )
    remake_attention: Literal["never", "on-blackwell", "always"] = Field(
        "never",
        description="Selective checkpointing makes attention again, as what it keeps did not name "
        "cuDNN's kernel. torchtitan took that on Blackwell since May 2025, in v0.2.0 everywhere, "
        "and named it since December 2025.",
    )
    loss_parallel: bool = Field(
        True, description="Compute the loss over logits that tp ranks share."
    )
    collect_outputs: bool = Field(
        False,
        description="With a pipeline, keep the logits of every micro-batch until the next step, "
        "and copy them into one tensor at the end of this one. Up to v0.2.0 torchtitan did.",
    )
    expandable_segments: bool | None = Field(
        None,
        description="PyTorch's allocator grows segments rather than caching blocks. Unset: either, "
        "as torchtitan's run_train.sh has it but not its script for Slurm, nor in v0.2.0; and that "
        "they grow is expected.",
    )
    max_split_size_bytes: WholeBlocks = None
    roundup_power2_divisions: Divisions = ()


Automatic = Elements | Literal["auto"]
"""A number of elements, or what transformers makes of a model's hidden size."""


class DeepSpeed(Part):
    """DeepSpeed's ZeRO buffers, in its own names. Sizes are numbers of elements; auto, those that
    transformers takes: the hidden size h squared, in stage 3 0.9 h^2 fetched ahead and 10 h whole.
    """

    reduce_bucket_size: Automatic = Field(500_000_000, description="Of one reduction.")
    allgather_bucket_size: Elements = Field(
        500_000_000,
        description="Of one gathering of weights in stages 1 and 2. Changes no memory: they are "
        "gathered into the flat buffer of which they are parts.",
    )
    stage3_prefetch_bucket_size: Automatic = Field(50_000_000, description="Fetched ahead.")
    stage3_param_persistence_threshold: Automatic = Field(
        100_000, description="Parameters below this size are whole on every rank."
    )
    stage3_max_live_parameters: Elements = Field(
        1_000_000_000, description="Most parameters that are whole at once."
    )
    overlap_comm: bool | None = Field(
        None, description="Reduce beside the backward, with a second bucket. Unset: in stage 3."
    )
    contiguous_gradients: bool = Field(
        True, description="Copy gradients to one buffer as they are made."
    )
    offload_optimizer: bool = Field(
        False, description="Optimizer states and master weights in host memory."
    )
    offload_param: bool = Field(False, description="Stage 3: weights in host memory.")


class Transformers(Part):
    """Hugging Face transformers with FSDP, DDP or DeepSpeed, as Trainer and accelerate run it."""

    called: ClassVar = "transformers"
    name: Literal["transformers"]
    data_parallel_engine: Literal["ddp", "fsdp1", "fsdp2", "deepspeed"] | None = Field(
        None,
        description="What replicates or shards states over data-parallel ranks. Unset: ddp where "
        "nothing is sharded, else fsdp2.",
    )
    reshard_after_forward: bool = Field(
        True, description="FSDP: let go of a block's gathered weights after its forward."
    )
    offload_params: bool = Field(
        False,
        description="FSDP: shares of weights, gradients and optimizer states in host memory "
        "(CPUOffload, CPUOffloadPolicy). A unit comes to the GPU where it runs.",
    )
    sync_each_micro_batch: bool = Field(
        False,
        description="Reduce gradients after every micro-batch. accelerate does so after the last "
        "only, and keeps unsharded gradients until then.",
    )
    gradient_as_bucket_view: bool = Field(
        False, description="DDP: gradients lie in its buckets rather than beside them."
    )
    deepspeed: DeepSpeed = Field(default_factory=DeepSpeed)
    compile: bool = Field(False, description="Compile the model (torch.compile).")
    liger_kernel: bool = Field(
        False, description="Fused norms, SwiGLU and loss (use_liger_kernel)."
    )
    experts_one_by_one: bool = Field(
        False,
        description="Each expert runs its own linears, as in models of transformers before 5.0, in "
        "place of grouped products of all.",
    )
    cuda_module_loading: Literal["lazy", "eager"] | None = Field(
        None,
        description="When CUDA loads kernels: as they run, or all at once. Unset: either, as "
        "releases differ in it, and lazily what is expected.",
    )
    loss_parallel: bool = Field(
        True,
        description="With tp: compute the loss over logits that tp ranks share. Of no effect under "
        "DeepSpeed, which gathers them.",
    )
    expandable_segments: bool = Field(
        False, description="PyTorch's allocator grows segments rather than caching blocks."
    )
    max_split_size_bytes: WholeBlocks = None
    roundup_power2_divisions: Divisions = ()


class Nanotron(Part):
    """Hugging Face nanotron. Its other keys are fields that all frameworks have: pp_engine is the
    pipeline schedule (afab is gpipe), tp_mode REDUCE_SCATTER is sequence parallelism, zero_stage
    the sharding strategy, recompute_layer full recompute; accumulate_grad_in_fp32 is what bf16
    says and bf16-pure does not.
    """

    called: ClassVar = "nanotron"
    name: Literal["nanotron"]
    make_vocab_size_divisible_by: Annotated[int, Field(ge=1, le=1_048_576)] = Field(
        1, description="The vocabulary is padded to a multiple of this times tp."
    )
    tp_linear_async_communication: bool = Field(
        False, description="Communicate beside the products of tensor-parallel linears."
    )
    tp_recompute_allgather: bool = Field(
        True,
        description="With sequence parallelism: gather the inputs of column-parallel linears again "
        "in backward rather than keep them gathered.",
    )
    torch_adam_is_fused: bool = Field(
        True, description="PyTorch's fused AdamW; else its foreach one, which borrows more."
    )
    expandable_segments: bool = Field(
        False, description="PyTorch's allocator grows segments rather than caching blocks."
    )
    max_split_size_bytes: WholeBlocks = None
    roundup_power2_divisions: Divisions = ()


Framework = Annotated[Megatron | Torchtitan | Transformers | Nanotron, Field(discriminator="name")]
