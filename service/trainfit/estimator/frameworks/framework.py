"""What a framework tells of its plans. Each framework has a room beside this file with a module
`framework` that does; the registry has a line for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from trainfit.estimator.peak import Segments
from trainfit.resolve.plan import Plan

if TYPE_CHECKING:
    from trainfit.estimator.ledger import Group
    from trainfit.estimator.local_parameters import ParameterTable
    from trainfit.estimator.memo import Memo
    from trainfit.estimator.rank import Rank
    from trainfit.estimator.results import Interval
    from trainfit.estimator.timeline import Timeline
    from trainfit.estimator.trace.recorder import Trace
    from trainfit.specs.blocks import Sublayer

AnyPlan = TypeVar("AnyPlan", bound=Plan)
PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)


class Costs(NamedTuple):
    """Work of what a plan has several of, in the units of estimator.work. Chunks are counted where
    there is a pipeline.
    """

    kind: int
    layer: int
    rank: int
    chunk: int


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


class Framework(Protocol[PlanOf]):
    """A framework, to the estimator."""

    @property
    def ASSUMPTIONS(self) -> Mapping[str, str]:  # noqa: N802
        """What it alone takes for granted, by an id that the documentation explains."""

    def ledger(self, plan: PlanOf, *, symbolic: bool = False) -> Ledger:
        """The ledger of a plan; `symbolic` has shapes in symbols, where programs are known."""

    def programs(self, plan: PlanOf) -> Mapping[str, ModuleType]:
        """Where the program of each kind of block stands."""

    def ranks(
        self, plan: PlanOf, table: ParameterTable, memo: Memo, *, activations: bool
    ) -> Iterator[Rank]:
        """Every pipeline rank at its peak, in order. Without `activations` only model states and
        standing buffers count.
        """

    def timeline(self, plan: PlanOf, rank: int) -> Timeline | None:
        """A step of a rank, None where it is not known pass by pass or is too long."""

    def trace(self, plan: PlanOf, memo: Memo) -> Trace | None:
        """The requests of a rank, None where their order is not known."""

    def trained_parameters(self, plan: PlanOf, table: ParameterTable, memo: Memo) -> int | None:
        """How many parameters are trained, None where all are that the model would train."""

    def stray_permille(self, plan: PlanOf) -> int:
        """How far a peak may stray from the ledger's sum, in thousandths."""

    def expert_groups(self, plan: PlanOf) -> list[int]:
        """Sizes of the groups of ranks that experts have for themselves."""

    def exchange(self, plan: PlanOf) -> Interval:
        """Bytes of connections by which tokens get to experts on other ranks."""

    def assumptions(self, plan: PlanOf) -> frozenset[str]:
        """The ids of what is taken for granted under this framework."""

    def costs(self, plan: PlanOf) -> Costs:
        """What an estimate of the plan takes."""
