"""Softmax attention as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend; d_v is the value head dimension. Source:
megatron/core/transformer/attention.py.
"""

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.operations.core_attention import CORE, PROJECTED
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import Attention

WITH_CORE = (OFFLOADED + CORE,)

HONOURS = frozenset({"gate_width", "k_norm", "q_norm", "sinks"})


def attention(step: TransformerEngine, x: Tensor, block: Attention) -> None:
    """linear_qkv, q/k norms, core attention, the gate of its output, linear_proj."""
    n, t = step.sizes.n, step.sizes.t
    a, g, d = step.named(a=block.heads, g=block.kv_heads, d=block.head_dim)
    (d_v,) = step.named(d_v=block.v_head_dim) if block.v_head_dim else (d,)
    gate = block.gate_width // t
    keys_and_values = d + d_v if block.v_head_dim else 2 * d
    weight_rows = (a * d + g * keys_and_values + block.gate_width) // t
    a, g = a // t, max(g // t, 1)
    packed = a * d + g * keys_and_values + gate
    projected = step.column_linear("linear_qkv", x, packed, "packed qkv", rows=weight_rows)
    if block.q_norm is not None:
        heads = [step.tensor("q before its norm", n, a, d)]
        if block.k_norm is not None:
            heads.append(step.tensor("k before its norm", n, g, d))
        step.head_norms(block.q_norm.kind, *heads)
    q = step.tensor("q", n, a, d, dropped_by=WITH_CORE)
    k = step.tensor("k", n, g, d, dropped_by=WITH_CORE)
    v = step.tensor("v", n, g, d_v, dropped_by=WITH_CORE)
    step.split_heads(projected, q, k, v, rotates=block.rope)
    # Attention.forward names them until linear_proj has run.
    beside: Tensors = (projected,)
    if step.exchanges_heads or step.passes_keys_round:
        beside = (projected, q, k, v) if step.exchanges_heads else (projected, k, v)
    leaves_by = () if gate else PROJECTED
    out = step.attention(
        q, k, v, dropped_by=leaves_by, sinks=block.sinks, window=block.window, beside=beside
    )
    if gate:
        out = step.output_gate(out, gate)
    step.row_linear("linear_proj", out, block.output_size or step.sizes.h, beside=beside)
