"""Softmax attention: what it owns.

Symbols: h hidden, a heads, g kv heads, d head dimension, d_v value head dimension.
"""

from collections.abc import Iterator

from trainfit.estimator.blocks.norm import weights as norm
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
        yield from _query(block, a_d, h_in)
    keys, values = (g_d, 0 if block.key_is_value else g_dv) if block.owns_kv else (0, 0)
    yield Weight("k", keys * h_in, block.bucket, Split.TENSOR, packed=True)
    yield Weight("v", values * h_in, block.bucket, Split.TENSOR, packed=True)
    if block.query_experts is None:
        yield from _output(block, block.heads * d_v, h_out)
    else:
        numel = block.query_experts * (g_d * h_in + h_out * g_dv)
        yield Weight("query_experts", numel, "routed_experts", Split.EXPERT)
    if block.qkv_bias:
        yield Weight("qkv_bias", a_d + keys + values, block.bucket, Split.TENSOR, vector=True)
    if block.out_bias:
        yield Weight("proj_bias", h_out, block.bucket, Split.REPLICATED, vector=True)
    if block.gate_width:
        gate = block.gate_width * (h_in + int(block.gate_bias))
        yield Weight("gate", gate, block.bucket, Split.TENSOR, packed=True)
    if block.sinks:
        yield Weight("sinks", block.heads, block.bucket, Split.TENSOR, vector=True)
    if block.q_norm is not None:
        yield norm.weights(block.q_norm, "q_norm")
    if block.k_norm is not None:
        yield norm.weights(block.k_norm, "k_norm")


def _query(block: Attention, width: int, inputs: int) -> Iterator[Weight]:
    """One matrix, or a down and an up projection with a norm between them."""
    rank = block.q_lora_rank
    if rank is None:
        yield Weight("q", width * inputs, block.bucket, Split.TENSOR, packed=True)
    else:
        yield Weight("q_down", rank * inputs, block.bucket, Split.REPLICATED)
        yield Weight("q_latent_norm", rank, "norm", Split.REPLICATED)
        yield Weight("q_up", width * rank, block.bucket, Split.TENSOR)


def _output(block: Attention, width: int, outputs: int) -> Iterator[Weight]:
    """One matrix, or a down projection for each group of heads and one up projection."""
    rank, groups = block.out_lora_rank, block.out_groups
    if rank is None:
        yield Weight("proj", outputs * width, block.bucket, Split.TENSOR)
    else:
        down = groups * rank * (width // groups)
        yield Weight("proj_down", down, block.bucket, Split.TENSOR)
        yield Weight("proj_up", outputs * groups * rank, block.bucket, Split.TENSOR)
