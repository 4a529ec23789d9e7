"""What a framework tells of one pipeline rank, before anything outside the tensors is added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainfit.estimator.local_parameters import ChunkParameters
from trainfit.estimator.overhead import IMBALANCE_PERMILLE, NOTHING
from trainfit.estimator.placement import Placement
from trainfit.estimator.results import Component, Interval, Peak


class Ranks:
    """Every pipeline rank of a plan, in order. They have no value of their own: they are what was
    made once.
    """

    def __init__(self, ranks: Iterable[Rank]) -> None:
        self._ranks = tuple(ranks)

    def __iter__(self) -> Iterator[Rank]:
        return iter(self._ranks)


class Rank(NamedTuple):
    """A pipeline rank at its peak: what its tensors take on one GPU, and when that is."""

    placements: list[Placement]
    parameters: tuple[ChunkParameters, ...]
    """Of each chunk."""
    states: tuple[Component, ...]
    """Weights, gradients and optimizer states."""
    activations: int
    workspace: int
    framework_buffers: int
    routed: int
    """Bytes of activations and of workspace that grow with what the router sends to the rank."""
    resident: int
    """Bytes that are allocated between two steps: states, buffers, the libraries' workspaces."""
    peak: Peak
    in_flight: int
    """Chunk-forwards whose activations it holds at most."""
    imbalance_permille: int = IMBALANCE_PERMILLE
    """How much more of those the most loaded rank has at most."""
    towers: int = 0
    """Bytes that activations of a tower take at most; it may make none."""
    pools: Interval = NOTHING
    """Bytes that the pools of CUDA graphs hold beyond what is allocated without graphs."""
    cached: int = 0
    """Bytes that the allocator keeps and cannot give out at the peak."""

    @property
    def is_known(self) -> bool:
        """Whether nothing decides what it asks for but its job: no router, no tower, no graph."""
        return not (self.routed or self.towers) and self.pools is NOTHING

    @property
    def tensors(self) -> tuple[int, ...]:
        """Bytes of each component that PyTorch has allocated at the peak, in their order."""
        weights, gradients, optimizer = self.states
        states = weights.bytes, gradients.bytes, optimizer.bytes
        return *states, self.activations, self.workspace, self.framework_buffers
