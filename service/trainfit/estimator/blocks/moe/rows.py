"""How many rows of the expert matrices a rank sends and receives. Symbols: estimator.legend."""

from math import ceil
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
    """T_r: those that arrived at all x ranks which share an expert, gathered."""


def rows_of(block: Experts, sizes: Legend, routing: Routing) -> Rows:
    """Source: megatron/core/transformer/moe/moe_utils.py (get_capacity)."""
    sent = sizes.n_shard * block.top_k
    if routing.capacity_factor:
        capacity = ceil(sent * routing.capacity_factor / block.experts)
        full = block.experts * capacity
        sent = full if routing.pad_to_capacity else min(sent, full)
    arrived = sent if routing.pad_to_capacity else ceil(sent * routing.imbalance_factor)
    return Rows(sent, arrived, arrived * sizes.x)
