"""The Plan: a job with nothing left open. The estimator sees only this."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from trainfit.specs.architecture import ModelSpec
from trainfit.specs.calibration import Calibration
from trainfit.specs.framework import Framework
from trainfit.specs.parallelism import PipelineSchedule, ShardingStrategy
from trainfit.specs.pipeline_layout import VirtualStage
from trainfit.specs.speed import KnownSpeed

Origin = Literal["user", "config", "framework", "derived"]


@dataclass(frozen=True, slots=True)
class Default:
    """A value that the caller did not give, and where it comes from."""

    pointer: str
    value: Any
    origin: Origin
    why: str


class LeftOpen(Iterable[Default]):
    """What a job left open, made once somebody asks: of most plans only figures are compared."""

    def __init__(self, tell: Callable[[], Iterable[Default]]) -> None:
        self._tell = cache(tell)

    def __iter__(self) -> Iterator[Default]:
        return iter(self._tell())


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model's dimensions come from. `revision` is a commit of the Hub; `stale` that the
    branch or tag that was asked for was not confirmed to name it still.
    """

    name: str | None
    revision: str | None
    source: Literal["hub", "bundled", "request", "spec"]
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a model, and the order in which they run. `virtual_stages` are in the order in
    which layers run.
    """

    pp: int
    vpp: int
    schedule: PipelineSchedule
    virtual_stages: tuple[VirtualStage, ...]
    microbatch_group_size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the parallel groups. Dense states are sharded over `optimizer_shards` ranks, expert
    states over `expert_optimizer_shards`, in each of `replicas` groups. Keys and values go round
    rings of `cp_ring` context-parallel ranks.
    """

    num_gpus: int
    pipeline: Pipeline
    tp: int
    cp: int
    ep: int
    etp: int
    dp: int
    expert_dp: int
    sequence_parallel: bool
    divides_embedding: bool
    """Whether tensor-parallel ranks share the vocabulary of the embedding, and of a tied head."""
    cp_comm_type: Literal["p2p", "all_gather", "a2a", "a2a+p2p"]
    cp_ring: int
    sharding: ShardingStrategy
    optimizer_shards: int
    expert_optimizer_shards: int
    replicas: int
    divides_towers: bool = False
    """Whether they share what linears of a tower of images or sounds multiply with."""


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """One step: micro-batches of `micro_batch_size` samples of `seq_length` tokens, of which
    `image_tokens` stand for images; None where that is not known.
    """

    micro_batch_size: int
    num_microbatches: int
    seq_length: int
    image_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TargetGpu:
    """The GPU, as far as memory goes. Zero bytes: none was named."""

    name: str
    memory_bytes: int
    compute_capability: str
    vendor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an estimate depends on, whichever framework runs the step. Plans are equal whose
    figures are: where a model comes from and what was defaulted make no difference.
    """

    model: ModelSpec
    source: ModelSource = field(compare=False)
    vocabulary_rows: int
    mtp_layers: int
    layout: Layout
    batch: MicroBatches
    framework: Framework
    gpu: TargetGpu
    defaults: Iterable[Default] = field(compare=False)
    calibration: Calibration | None = None
    """What the caller sends, of this cluster or of another."""
    speed: KnownSpeed | None = None
    """What the caller knows that the time of a step rests on."""
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """What the model's config or the job says that the figures do not follow."""

    @property
    def generates(self) -> bool:
        """Whether the samples of a step are made by the model that it trains."""
        return False

    @property
    def runs_reference(self) -> bool:
        """Whether a forward without gradients follows that of the policy."""
        return False
