"""How a job is laid out over GPUs, in Megatron's names."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, field_validator

from trainfit.specs.honoured import (
    BY_HEADS,
    IGNORED_OUTSIDE_MEGATRON,
    IGNORED_WITHOUT_PIPELINES,
    MEGATRON,
    OF_MEGATRON,
    PYTORCH,
    Frameworks,
    Only,
    OnlyValues,
    all_but,
)
from trainfit.specs.part import Part
from trainfit.specs.pipeline_layout import parse_layout

MAX_GPUS = 131_072

Size = Annotated[int, Field(ge=1, le=MAX_GPUS)]
StageSize = Annotated[int, Field(ge=1, le=512)]
LayerCount = Annotated[int, Field(ge=0, le=2048)]

PipelineSchedule = Literal[
    "1f1b",
    "interleaved",
    "gpipe",
    "looped-bfs",
    "interleaved-zb",
    "zb-h1",
    "zb-h2",
    "zb-v",
    "dualpipe",
    "dualpipe-v",
]
V_SHAPED: tuple[PipelineSchedule, ...] = ("zb-v", "dualpipe-v")
"""Schedules in which a rank holds one chunk on the way down and one on the way up."""
SPLIT_BACKWARD: tuple[PipelineSchedule, ...] = ("interleaved-zb", "zb-v", "dualpipe-v")
"""Schedules of PyTorch that run backward for inputs at once and for weights later."""
CHUNKED: tuple[PipelineSchedule, ...] = ("interleaved", "looped-bfs", "interleaved-zb")
"""Schedules in which a rank holds every p-th virtual stage."""
CpCommType = Literal["p2p", "all_gather", "a2a", "a2a+p2p"]
LevelSizes = tuple[StageSize, ...] | None
SCHEDULES: Mapping[str, Frameworks] = {
    **dict.fromkeys(("interleaved", "zb-v", "dualpipe-v"), all_but("nanotron")),
    **dict.fromkeys(("looped-bfs", "interleaved-zb"), PYTORCH),
    **dict.fromkeys(("zb-h1", "zb-h2", "dualpipe"), MEGATRON),
}
ShardingStrategy = Literal["no_shard", "optim", "optim_grads", "optim_grads_params"]
STRATEGIES: Mapping[str, Frameworks] = dict.fromkeys(
    ("optim_grads", "optim_grads_params"), all_but("nanotron")
)
NOT_IN_NANOTRON = Only(all_but("nanotron"))
ONE_IN_NANOTRON = Only(all_but("nanotron"), neutral=1)


class Parallelism(Part):
    """Sizes of the parallel groups and the split of layers over pipeline stages."""

    num_gpus: Size | None = Field(
        None,
        validation_alias=AliasChoices("num_gpus", "world_size"),
        description="GPUs of the job. Unset: the smallest number that the other sizes allow.",
    )
    tp: StageSize = Field(
        1,
        validation_alias=AliasChoices("tp", "tensor_model_parallel_size"),
        description="Tensor-parallel size.",
    )
    pp: StageSize = Field(
        1,
        validation_alias=AliasChoices("pp", "pipeline_model_parallel_size"),
        description="Pipeline-parallel size: the number of pipeline ranks.",
    )
    vpp: Annotated[Annotated[int, Field(ge=1, le=256)] | None, ONE_IN_NANOTRON] = Field(
        None,
        validation_alias=AliasChoices(
            "vpp",
            "virtual_pipeline_model_parallel_size",
            "num_virtual_stages_per_pipeline_rank",
        ),
        description="Model chunks per pipeline rank. Unset: 1, or what the layout says.",
    )
    num_layers_per_virtual_pipeline_stage: Annotated[
        Annotated[int, Field(ge=1, le=2048)] | None, NOT_IN_NANOTRON
    ] = Field(None, description="Layers per model chunk, in place of vpp.")
    cp: Annotated[StageSize, NOT_IN_NANOTRON] = Field(
        1,
        validation_alias=AliasChoices("cp", "context_parallel_size"),
        description="Context-parallel size: ranks that share one sequence.",
    )
    ep: Annotated[int, Field(ge=1, le=4096), NOT_IN_NANOTRON] = Field(
        1,
        validation_alias=AliasChoices("ep", "expert_model_parallel_size"),
        description="Expert-parallel size: ranks that share the experts.",
    )
    etp: Annotated[StageSize | None, ONE_IN_NANOTRON] = Field(
        None,
        validation_alias=AliasChoices("etp", "expert_tensor_parallel_size"),
        description="Tensor-parallel size within an expert. Unset: tp under Megatron, and of "
        "experts under torchtitan where ep is 1; else 1.",
    )
    sequence_parallel: bool | None = Field(
        None,
        description="Split activations outside attention and MLP over tp. Unset: tp > 1, but not "
        "under DeepSpeed, nor under nanotron, whose tp_mode is ALL_REDUCE then.",
    )
    cp_comm_type: Annotated[CpCommType, BY_HEADS] = Field(
        "p2p",
        description="How context-parallel ranks exchange keys and values. Under transformers, a2a "
        "is Ulysses, as verl and DeepSpeed have it.",
    )
    hierarchical_context_parallel_sizes: Annotated[LevelSizes, OF_MEGATRON] = Field(
        None, strict=False, description="Sizes of the a2a and p2p levels of cp_comm_type a2a+p2p."
    )
    num_layers_in_first_pipeline_stage: Annotated[LayerCount | None, NOT_IN_NANOTRON] = Field(
        None,
        validation_alias=AliasChoices(
            "num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"
        ),
        description="Layers of pipeline rank 0; the other ranks share the rest evenly.",
    )
    num_layers_in_last_pipeline_stage: Annotated[LayerCount | None, NOT_IN_NANOTRON] = Field(
        None,
        validation_alias=AliasChoices(
            "num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"
        ),
        description="Layers of the last pipeline rank; the other ranks share the rest evenly.",
    )
    account_for_embedding_in_pipeline_split: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False, description="Count the embedding as one layer when layers are split."
    )
    account_for_loss_in_pipeline_split: Annotated[bool, IGNORED_OUTSIDE_MEGATRON] = Field(
        False, description="Count the head and the loss as one layer when layers are split."
    )
    pipeline_model_parallel_layout: Annotated[
        Annotated[str, Field(max_length=4096)] | None, NOT_IN_NANOTRON
    ] = Field(
        None,
        description="Layers of every virtual stage, as E (embedding), t (decoder layer), m "
        "(multi-token prediction), L (loss), stages divided by |, with (...)*n and x*n: "
        "Et*3|(tt|)*29m|L.",
        examples=["Et*3|(tt|)*29m|L"],
    )
    pipeline_schedule: Annotated[PipelineSchedule | None, OnlyValues(SCHEDULES)] = Field(
        None,
        description="Unset: interleaved where vpp > 1, else 1f1b; gpipe under nanotron. Under "
        "torchtitan each is run as PyTorch runs it: gpipe, looped-bfs, interleaved-zb, zb-v and "
        "dualpipe-v too. Elsewhere other schedules are priced by the bound on activations in their "
        "papers.",
    )
    microbatch_group_size_per_vp_stage: Annotated[Size | None, IGNORED_WITHOUT_PIPELINES] = Field(
        None,
        validation_alias=AliasChoices(
            "microbatch_group_size_per_vp_stage",
            "microbatch_group_size_per_virtual_pipeline_stage",
        ),
        description="Micro-batches that a chunk runs in a row when interleaved. Unset: pp.",
    )
    use_distributed_optimizer: bool | None = Field(
        None,
        description="Shard optimizer states over the data-parallel ranks; the short form of "
        "data_parallel_sharding_strategy optim (true) or no_shard (false).",
    )
    data_parallel_sharding_strategy: Annotated[ShardingStrategy | None, OnlyValues(STRATEGIES)] = (
        Field(
            None,
            description="What is sharded over data-parallel ranks: nothing, optimizer "
            "states, also gradients, also weights (ZeRO 0, 1, 2, 3). Unset: optim.",
        )
    )
    data_parallel_replicate_size: Annotated[Size, NOT_IN_NANOTRON] = Field(
        1,
        validation_alias=AliasChoices(
            "data_parallel_replicate_size", "num_distributed_optimizer_instances"
        ),
        description="Groups of data-parallel ranks that each hold a whole copy of what is sharded.",
    )

    @field_validator("pipeline_model_parallel_layout")
    @classmethod
    def _layout_is_well_formed(cls, value: str | None) -> str | None:
        if value is not None:
            parse_layout(value)
        return value
