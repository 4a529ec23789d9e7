"""Every rank gathers all tokens of its e x group and keeps the rows of its own experts.

Symbols: estimator.legend; n_g = n' e x gathered tokens, E_l local experts, T_r rows of the local
experts. Source: megatron/core/transformer/moe/token_dispatcher.py (MoEAllGatherTokenDispatcher);
the gathered tokens lie in a global buffer, which `gather_buffer` counts.
"""

from trainfit.estimator.blocks.moe.rows import Rows
from trainfit.estimator.ledger import Operation, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED, Routing
from trainfit.specs.blocks import Experts

FC1 = OFFLOADED + "expert_fc1"
INDEX_BYTES = 8
"""Indices are int64."""


def dispatch(block: Experts, sizes: Legend, rows: Rows, routing: Routing) -> list[Operation]:
    """Gather tokens, probabilities and routing map; pick the rows of local experts."""
    h, width = block.latent or sizes.h, sizes.bytes
    gathered = sizes.n_shard * sizes.e * sizes.x
    local = block.experts // sizes.e
    permuted = h * rows.received * width
    together = sizes.e * sizes.x > 1
    probabilities = routing.probability_bytes * gathered
    everywhere = (1 + routing.probability_bytes) * gathered * block.experts if together else 0
    return [
        Operation(
            "gather",
            (
                forward("gathered probabilities and map [n_g, E]", everywhere),
                backward("gradient of the gathered tokens [n_g, h]", h * gathered * width),
            ),
        ),
        Operation(
            "permute",
            (
                saved("local routing map [n_g, E_l], twice", 2 * gathered * local),
                saved("local probabilities [n_g, E_l]", probabilities * local),
                saved("token indices [T_r] int64", INDEX_BYTES * rows.received),
                saved("permuted rows = fc1 input [T_r, h]", sizes.kept(permuted), FC1),
                backward("gradient of the permuted rows [T_r, h]", permuted),
            ),
        ),
    ]


def combine(block: Experts, sizes: Legend, rows: Rows) -> list[Operation]:
    """Rows are added into [n_g, h], which is reduced and scattered."""
    h, width = block.latent or sizes.h, sizes.bytes
    gathered = h * sizes.n_shard * sizes.e * sizes.x * width
    return [
        Operation(
            "unpermute",
            (
                forward("fc2 output [T_r, h]", h * rows.received * width),
                forward("sum over experts [n_g, h]", gathered),
                backward("gradient of the sum [n_g, h]", gathered),
                backward("gradient of fc2 output [T_r, h]", h * rows.received * width),
            ),
        ),
        Operation(
            "combine",
            (
                forward("sum over experts [n_g, h]", gathered),
                forward("result [n', h]", sizes.act),
            ),
        ),
    ]


def gather_buffer(block: Experts, sizes: Legend) -> int:
    """Bytes of the global buffer [n_g, h] that stays once it was used."""
    if sizes.e * sizes.x == 1:
        return 0
    return (block.latent or sizes.h) * sizes.n_shard * sizes.e * sizes.x * sizes.bytes
