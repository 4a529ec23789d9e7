"""How many rows of the expert matrices a rank sends and receives. Symbols: estimator.legend."""

from math import ceil, sqrt
from typing import NamedTuple

from trainfit.estimator.legend import Legend
from trainfit.resolve.megatron.plan import Routing
from trainfit.specs.blocks import Experts


class Rows(NamedTuple):
    """Rows of the expert matrices on one rank."""

    sent: int
    """T: n' k when no token is dropped, E ceil(n' k f / E) when experts are filled to capacity."""
    arrived: int
    """T_a: T for balanced routing, times the imbalance."""
    received: int
    """T_r: those that arrived at all x ranks which share an expert, gathered, or those that there
    is room for."""
    kept: int
    """T_k: those of them that are kept for backward."""


def rows_of(block: Experts, sizes: Legend, routing: Routing) -> Rows:
    """Padding to `align` leaves half of it empty for each expert, on average. Sources:
    megatron/core/transformer/moe/moe_utils.py (get_capacity), token_dispatcher.py
    (_HybridEPManager.setup_metadata), paged_stash.py (allocate_stash_buffers).
    """
    sent = sizes.n_shard * block.top_k
    if routing.capacity_factor:
        capacity = ceil(sent * routing.capacity_factor / block.experts)
        full = block.experts * capacity
        sent = full if routing.pad_to_capacity else min(sent, full)
    arrived = sent if routing.pad_to_capacity else ceil(sent * routing.imbalance_factor)
    received = arrived * sizes.x
    if routing.align > 1:
        received += block.experts // sizes.e * (routing.align // 2)
    if not routing.rank_capacity_factor:
        return Rows(sent, arrived, received, received)
    room = ceil(sent * sizes.x * routing.rank_capacity_factor)
    stashed = ceil(received * routing.stash_factor) if routing.stash_factor else room
    return Rows(sent, arrived, room, min(stashed, room))


DEVIATIONS = 5
"""How far the largest of a million numbers strays in standard deviations."""


def strays_permille(sent: int, routing: Routing) -> int | None:
    """How many more rows than its share the most loaded rank receives at most, in thousandths,
    where that is known: none where there is room for so many only, and where experts are chosen at
    random rows have a variance of at most their number. Source:
    megatron/core/transformer/moe/moe_utils.py (RandomSTE).
    """
    if routing.pad_to_capacity or routing.rank_capacity_factor:
        return 0
    return ceil(1_000 * DEVIATIONS / sqrt(sent)) if routing.random else None
