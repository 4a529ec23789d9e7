"""What a framework tells of its plans. Each framework has a room beside this file with a module
`framework` that does; the registry has a line for each.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trainfit.estimator.peak import Segments
from trainfit.resolve.plan import Plan
from trainfit.specs.calibration import Trained
from trainfit.specs.precision import Narrow

if TYPE_CHECKING:
    from trainfit.estimator.ledger import BlockOperation, Group
    from trainfit.estimator.local_parameters import ParameterTable
    from trainfit.estimator.memo import Memo
    from trainfit.estimator.overhead import KernelLoading
    from trainfit.estimator.rank import Ranks
    from trainfit.estimator.results import Interval
    from trainfit.estimator.timeline import Timeline
    from trainfit.estimator.trace.recorder import Trace
    from trainfit.specs.blocks import Sublayer

AnyPlan = TypeVar("AnyPlan", bound=Plan)
PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)


class Costs(NamedTuple):
    """Work of what a plan has several of, in the units of estimator.work, and of what it has once.
    Chunks are counted where there is a pipeline.
    """

    kind: int
    layer: int
    rank: int
    chunk: int
    once: int = 0


class Alike(NamedTuple):
    """Pipeline `ranks` that ask for the same, or for less than the first of them, and the trace of
    that one. It rests on which of the `shares` of states a rank has. `uneven`, where experts take
    whatever is routed to them, is its trace as one of many draws has it; `long`, where lengths of
    samples differ, that of micro-batches of so many tokens a sample.
    """

    ranks: tuple[int, ...]
    shares: Sequence[int]
    trace: Callable[[int], Trace]
    uneven: Callable[[int, int], Trace] | None = None
    long: Callable[[int, int], Trace] | None = None


class StateTraffic(NamedTuple):
    """What a step moves of the states of a parameter, in bytes.

    Data-parallel ranks reduce `gradient` bytes, once a step or, where it `reduces_each`, behind
    every micro-batch, beside the backward where that is `overlapped`. They gather `weight` bytes
    after the optimizer's step, or `gathers` times for every micro-batch; where they share nothing
    out, there are none, and gradients are scattered and gathered. The step reads and writes
    `optimizer` bytes for each parameter of a shard, of which `on_host` is the share that does so in
    host memory. With `fetches` the weights of a shard come from there whenever they are gathered.
    """

    gradient: float
    weight: float
    gathers: int
    reduces_each: bool
    overlapped: bool
    optimizer: float
    on_host: float = 0.0
    fetches: bool = False


class Execution(NamedTuple):
    """How a plan's operations run: linears in fp8 or fp4, by which recipe; the tokens of one
    micro-batch exchanged while another is computed (`overlaps_experts`); gradients of weights that
    are made before they are added to those of earlier micro-batches, not within the product
    (`adds_apart`);
    the products of experts launched one by one, not as one kernel (`launches_experts`); all kernels
    of a step launched by one graph (`replays`); what tensor-parallel ranks exchange cut into parts
    that travel beside the products that make or read them (`overlaps_tensors`); experts whose rows
    are as many whatever the router chooses, so that the host need not wait to learn their number
    (`knows_rows`); attention that multiplies in fp8 (`narrow_attention`).
    """

    narrow: Narrow | None
    overlaps_experts: bool
    adds_apart: bool
    launches_experts: bool
    replays: bool = False
    overlaps_tensors: bool = False
    knows_rows: bool = False
    narrow_attention: bool = False


class Ledger(Segments, Protocol):
    """The operations of a plan's model, with what each makes, saves and borrows."""

    @property
    def tables(self) -> Mapping[str, ModuleType]:
        """Where each kind of block is written down."""

    @property
    def dropped(self) -> frozenset[str]:
        """The modules that let go of tensors before backward."""

    def embedding(self) -> tuple[Group, ...]: ...

    def sublayer(self, sublayer: Sublayer) -> tuple[Group, ...]:
        """What the blocks read, the blocks, and what comes behind them."""

    def final_norm(self) -> tuple[Group, ...]: ...

    def head(self) -> tuple[Group, ...]: ...

    def mtp(self) -> tuple[Group, ...]:
        """The projection before a multi-token prediction's layer, the layer, and the norm behind;
        nothing where there is none.
        """

    def is_recomputed(self, position: int, kind: int) -> bool:
        """Whether the layer at this position of a chunk, of this kind, runs again in backward."""

    @property
    def recomputes_mtp(self) -> bool:
        """Whether a multi-token prediction's layer runs again in backward."""

    def rerun(self, groups: tuple[Group, ...]) -> Container[BlockOperation]:
        """What runs again of the operations of a layer that does."""

    def graphed(self, sublayer: Sublayer, groups: tuple[Group, ...]) -> Sequence[BlockOperation]:
        """What CUDA graphs of layers launch of the operations of a sublayer."""


class FrameworkEstimator(Protocol[PlanOf]):
    """A framework, to the estimator."""

    @property
    def ASSUMPTIONS(self) -> Mapping[str, str]:  # noqa: N802
        """What it alone takes for granted, by an id that the documentation explains."""

    def ledger(self, plan: PlanOf, *, symbolic: bool = False) -> Ledger:
        """The ledger of a plan; `symbolic` has shapes in symbols, where programs are known."""

    def execution(self, plan: PlanOf) -> Execution:
        """How the plan's operations run."""

    def shared_ledger(self, plan: PlanOf, memo: Memo) -> Ledger:
        """The one that ranks of plans with the same memo are estimated from."""

    def state_traffic(self, plan: PlanOf) -> StateTraffic:
        """What a step moves of states."""

    def programs(self, plan: PlanOf) -> Mapping[str, ModuleType]:
        """Where the program of each kind of block stands."""

    def ranks(self, plan: PlanOf, table: ParameterTable, memo: Memo, *, activations: bool) -> Ranks:
        """Every pipeline rank at its peak, in order. Without `activations` only model states and
        standing buffers count.
        """

    def timeline(self, plan: PlanOf, rank: int) -> Timeline | None:
        """A step of a rank, None where it is not known pass by pass or is too long."""

    def traces(self, plan: PlanOf, memo: Memo) -> Sequence[Alike]:
        """The requests of ranks; none where their order is not known."""

    def trained_parameters(self, plan: PlanOf, table: ParameterTable, memo: Memo) -> int | None:
        """How many parameters are trained, None where all are that the model would train."""

    def trains(self, plan: PlanOf) -> Trained:
        """What a step trains, and of what storage the rest is."""

    def stray_permille(self, plan: PlanOf) -> int:
        """How far a peak may stray from the ledger's sum, in thousandths."""

    def kernel_loading(self, plan: PlanOf) -> KernelLoading | None:
        """When CUDA loads kernels, None where it may be either."""

    def expert_groups(self, plan: PlanOf) -> list[int]:
        """Sizes of the groups of ranks that experts have for themselves."""

    def exchange(self, plan: PlanOf) -> Interval:
        """Bytes of connections by which tokens get to experts on other ranks."""

    def assumptions(self, plan: PlanOf) -> frozenset[str]:
        """The ids of what is taken for granted under this framework."""

    def costs(self, plan: PlanOf, *, replay: bool) -> Costs:
        """What an estimate of the plan takes; without `replay` its allocator is not replayed."""
