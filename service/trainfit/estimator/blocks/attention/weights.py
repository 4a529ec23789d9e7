"""Softmax attention: what it owns.

Symbols: h hidden, a heads, g kv heads, d head dimension, d_v value head dimension.
"""

from collections.abc import Iterator

from trainfit.estimator.blocks import norm
from trainfit.estimator.ledger import Split, Weight
from trainfit.specs.blocks import Attention


def weights(block: Attention, hidden: int) -> Iterator[Weight]:
    """Projections split over heads; the row-parallel bias and the q/k norms stay whole.

    Source: megatron/core/transformer/attention.py (linear_qkv column-, linear_proj row-parallel).
    """
    h_in = block.input_size or hidden
    h_out = block.output_size or hidden
    d, d_v = block.head_dim, block.v_head_dim or block.head_dim
    a_d, g_d, g_dv = block.heads * d, block.kv_heads * d, block.kv_heads * d_v
    if block.query_experts is None:
        yield Weight("q", a_d * h_in, block.bucket, Split.TENSOR)
        yield Weight("proj", h_out * block.heads * d_v, block.bucket, Split.TENSOR)
    else:
        per_expert = g_d * h_in + h_out * g_dv
        numel = block.query_experts * per_expert
        yield Weight("query_experts", numel, "routed_experts", Split.EXPERT)
    keys, values = (g_d, 0 if block.key_is_value else g_dv) if block.owns_kv else (0, 0)
    yield Weight("k", keys * h_in, block.bucket, Split.TENSOR)
    yield Weight("v", values * h_in, block.bucket, Split.TENSOR)
    if block.qkv_bias:
        yield Weight("qkv_bias", a_d + keys + values, block.bucket, Split.TENSOR)
    if block.out_bias:
        yield Weight("proj_bias", h_out, block.bucket, Split.REPLICATED)
    if block.gate_width:
        gate = block.gate_width * (h_in + int(block.gate_bias))
        yield Weight("gate", gate, block.bucket, Split.TENSOR)
    if block.sinks:
        yield Weight("sinks", block.heads, block.bucket, Split.TENSOR)
    if block.q_norm is not None:
        yield norm.weights(block.q_norm, "q_norm")
    if block.k_norm is not None:
        yield norm.weights(block.k_norm, "k_norm")
