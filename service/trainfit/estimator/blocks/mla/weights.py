"""Multi-head latent attention: what it owns.

Symbols: h hidden, a heads, r_q and r_kv latent ranks, d_n and d_r the query/key dimensions
without and with rotary positions, d_v the value dimension.
"""

from collections.abc import Iterator

from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Indexer, LatentAttention


def weights(block: LatentAttention, hidden: int) -> Iterator[Weight]:
    """Up projections are split over heads; down projections and latent norms stay whole.

    Source: megatron/core/transformer/multi_latent_attention.py (the down projections are
    `duplicated` linears).
    """
    a, r_q, r_kv = block.heads, block.q_lora_rank, block.kv_lora_rank
    d_r, d_v = block.qk_rope_head_dim, block.v_head_dim
    q_width = a * (block.qk_nope_head_dim + d_r)
    if r_q is None:
        yield Weight("q", q_width * hidden, "attention", Split.TENSOR)
    else:
        yield Weight("q_down", r_q * hidden, "attention", Split.REPLICATED)
        yield Weight("q_up", q_width * r_q, "attention", Split.TENSOR)
    kv_up = a * (block.qk_nope_head_dim + d_v) * r_kv
    kv_down = r_kv + d_r if block.owns_kv_latent else 0
    yield Weight("kv_down", kv_down * hidden, "attention", Split.REPLICATED)
    yield Weight("kv_up", kv_up, "attention", Split.TENSOR)
    yield Weight("proj", hidden * a * d_v, "attention", Split.TENSOR)
    if block.down_bias:
        yield Weight("down_bias", (r_q or 0) + kv_down, "attention", Split.REPLICATED, vector=True)
    if block.out_bias:
        yield Weight("proj_bias", hidden, "attention", Split.REPLICATED, vector=True)
    if block.gate_width:
        yield Weight("gate", block.gate_width * hidden, "attention", Split.TENSOR)
    if block.sinks:
        yield Weight("sinks", a, "attention", Split.TENSOR)
    if block.latent_norms is not None:
        per_rank = 2 if block.latent_norms == "layernorm" else 1
        latents = (r_q or 0) + (r_kv if block.owns_kv_latent else 0)
        yield Weight("latent_norms", per_rank * latents, "norm", Split.REPLICATED)
    if block.indexer is not None:
        yield from _indexer(block.indexer, hidden, r_q or hidden)


def _indexer(indexer: Indexer, hidden: int, query_width: int) -> Iterator[Weight]:
    """Queries from the query latent, one key head with a biased LayerNorm, a weight a head."""
    heads, d = indexer.heads, indexer.head_dim
    numel = heads * d * query_width + d * hidden + heads * hidden
    yield Weight("indexer", numel, "attention", Split.REPLICATED)
    yield Weight("indexer_k_norm", 2 * d, "norm", Split.REPLICATED)
