"""The Plan: a job with nothing left open. The estimator sees only this."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import ceil, floor, log
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


USUAL = 4
"""Records before the longest: five in all are the average of 84 micro-batches. Half is left by
each.
"""
MOST = 7
"""Records before the longest in a run with many of them: eight in all are the average of 1,700
micro-batches, and a standard deviation above it of 200. They come as near to the longest as four do
that each leave half, a sixteenth, since each leaves two thirds.
"""


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """What is known of the lengths of samples, of which the longest decides over so many `samples`
    of a micro-batch: their `mean`, `quantiles` that part them evenly, or nothing. Micro-batches
    have a `multiple` of tokens, but for the `longest`, which may come first of all.

    The allocator buys blocks for a micro-batch that is longer than all before it, a record. Of n in
    random order, no two alike, ln n + 0.577 are records on average, the first and the longest among
    them, with a variance of ln n + 0.577 - pi^2 / 6, however their lengths spread (A. Renyi,
    Theorie des elements saillants d'une suite d'observations, 1962). Of those that are longer than
    a record, the next record has any share below it with equal chance: on average half of them are
    left.

    Of a distribution no more is taken for known than was said: with a mean alone, the one of the
    most entropy that has it (exponential), with neither, any length alike (uniform). No chance is
    in it: a job has one answer.
    """

    longest: int
    samples: int
    mean: int | None
    quantiles: tuple[int, ...]
    multiple: int
    longest_first: bool

    def usual(self) -> tuple[int, ...]:
        """Micro-batches of a shuffled run that decide what its allocator caches: each is longer
        than all before it, up to the longest, so that no block that is free is large enough. Where
        the longest comes first there are none, and some that are shorter come behind it.
        """
        return self._up_to_longest(1 / 2, USUAL)

    def worst(self) -> tuple[int, ...]:
        """The same of a run that comes to the longest in many steps."""
        return self._up_to_longest(2 / 3, MOST)

    def _up_to_longest(self, left: float, count: int) -> tuple[int, ...]:
        lengths = [self.within(1 - left**number) for number in range(1, count + 1)]
        ordered = (self.longest, *lengths) if self.longest_first else (*lengths, self.longest)
        return tuple(dict.fromkeys(ordered))

    def within(self, share: float) -> int:
        """The length that so large a share of micro-batches keeps within; below 1."""
        of_samples = share ** (1 / self.samples)
        tokens = self._of_samples(of_samples)
        padded = ceil(max(1.0, tokens) / self.multiple) * self.multiple
        return min(self.longest, padded)

    def _of_samples(self, share: float) -> float:
        """The same of single samples."""
        if self.mean is not None:
            return -self.mean * log(1 - share)
        marks = (0, *self.quantiles, self.longest)
        place = share * (len(marks) - 1)
        below = min(floor(place), len(marks) - 2)
        return marks[below] + (place - below) * (marks[below + 1] - marks[below])


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """One step: micro-batches of `micro_batch_size` samples of `seq_length` tokens, of which
    `image_tokens` stand for images; None where that is not known. Where lengths differ, `spread`
    tells how, and these are the longest.
    """

    micro_batch_size: int
    num_microbatches: int
    seq_length: int
    image_tokens: int | None = None
    spread: LengthSpread | None = None


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
