"""What an estimate says. Frozen dataclasses, returned as they are and serialised as they stand."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from trainfit.resolve.plan import Default

ComponentName = Literal[
    "weights",
    "gradients",
    "optimizer_states",
    "activations",
    "workspace",
    "framework_buffers",
    "allocator_slack",
    "context_and_communicators",
]
COMPONENTS: tuple[ComponentName, ...] = get_args(ComponentName)


@dataclass(frozen=True, slots=True)
class Interval:
    """Bytes: what is expected, and the bounds that measured runs have stayed within."""

    low: int
    expected: int
    high: int


Basis = Literal["replayed", "ratio"]
"""What reserved bytes rest on: the allocator, replayed on the requests of the rank in their order,
or how much more than allocated published runs have reserved.
"""

CacheReleases = Literal["none", "once", "every_step"]
"""How often the allocator gives all of its cache back to the GPU before there is room."""

Direction = Literal["lowers", "raises", "either"]
"""In which direction something that is not counted can move a peak."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the model as published: tied weights once, no padding, without MTP.

    `active` are those that one token meets. `by_bucket` adds multi-token prediction as `mtp`, and
    so does `total_with_mtp`.
    """

    total: int
    total_with_mtp: int
    active: int
    trainable: int
    by_bucket: dict[str, int]


@dataclass(frozen=True, slots=True)
class EstimatedModel:
    """Which model was estimated and where its dimensions come from."""

    name: str | None
    model_type: str
    revision: str | None
    source: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class DataParallelism:
    """Sizes that follow from the layout."""

    num_gpus: int
    dp: int
    expert_dp: int
    num_microbatches: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """One model chunk of a pipeline rank. `layers` are indices into the model.

    `parameters` are those on one GPU; the further counts are parts of it.
    """

    vpp_rank: int
    layers: list[int]
    embedding: bool
    output_layer: bool
    mtp_layers: int
    parameters: int
    expert_parameters: int
    router_parameters: int
    norm_parameters: int
    embedding_parameters: int
    output_layer_parameters: int
    mtp_parameters: int


@dataclass(frozen=True, slots=True)
class Component:
    """Bytes of one kind at the peak.

    For model states also the stage's parameters over all its ranks, those on this GPU, and the
    bytes that each of these takes; of gradients and optimizer states, those that are trained. Zero
    elsewhere. `expert_bytes` are those of routed experts, told apart for model states under
    Megatron, and null elsewhere.
    """

    name: ComponentName
    bytes: int
    parameter_count: int = 0
    parameter_count_per_gpu: int = 0
    bytes_per_parameter: float = 0.0
    expert_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment of a step at which a stage holds most."""

    moment: str
    operation: str
    layer: int | None
    microbatch: int | None


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline rank: what it holds and what that takes on each of its GPUs.

    `binding_component` is the largest of `components`. They add up to the expected
    `device_bytes`; without the last to `reserved_bytes`; without the last two to
    `allocated_bytes`. `reserved_basis` says what `reserved_bytes` and `device_bytes` rest on. With
    `cache_releases` the GPU that was named has room only because the allocator releases its cache
    (num_alloc_retries): once until later steps find room, or at every step.

    `resident_bytes` are those that are allocated between two steps: states, buffers, the
    libraries' workspaces, and what a pipeline's chunks keep of what they received.
    `uncalibrated_device_bytes` are what published runs alone would say, where a calibration of the
    cluster was used.
    """

    pp_rank: int
    chunks: list[Chunk]
    microbatches_in_flight: int
    peak: Peak
    binding_component: ComponentName
    components: list[Component]
    resident_bytes: int
    allocated_bytes: Interval
    reserved_bytes: Interval
    reserved_basis: Basis
    device_bytes: Interval
    cache_releases: CacheReleases
    uncalibrated_device_bytes: Interval | None


@dataclass(frozen=True, slots=True)
class Binding:
    """The stage that needs most, when, and for what most of all."""

    pp_rank: int
    moment: str
    component: ComponentName
    device_bytes: Interval


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something taken for granted; `id` is explained in the documentation."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory of every pipeline rank of a job. A pure function of the job and the version."""

    estimator_version: str
    model: EstimatedModel
    parallelism: DataParallelism
    stages: list[Stage]
    binding: Binding
    defaults: list[Default]
    assumptions: list[Assumption]
    warnings: list[str]


class StageNeeds(NamedTuple):
    """What a stage needs on each of its GPUs; `sizes` are bytes at the peak, as in COMPONENTS."""

    peak: Peak
    sizes: tuple[int, ...]
    allocated_bytes: Interval
    reserved_bytes: Interval
    reserved_basis: Basis
    device_bytes: Interval
    cache_releases: CacheReleases
    uncalibrated_device_bytes: Interval | None = None

    @property
    def largest(self) -> ComponentName:
        return COMPONENTS[self.sizes.index(max(self.sizes))]


class TooMuchError(Exception):
    """A stage needs more of its device than is of use to who asks."""


class Needs(NamedTuple):
    """The part of an estimate that decides, for those who ask of many jobs."""

    parallelism: DataParallelism
    stages: list[StageNeeds]
    binding: Binding
    warnings: list[str]
