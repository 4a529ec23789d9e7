"""Softmax attention as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend; d_v is the value head dimension, _t a share of one tensor-parallel
rank. A tensor that two operations keep stands at the one whose backward comes last. Source:
megatron/core/transformer/attention.py, TransformerEngine's backends.py and context_parallel.py.
"""

from trainfit.estimator.blocks.norm.transformer_engine import statistics_bytes
from trainfit.estimator.ledger import Operation, Tensor, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED, MegatronPlan
from trainfit.specs.blocks import Attention

LOGSUMEXP_BYTES = 4
"""The kernels keep one fp32 logsumexp per head and query (FlashAttention, 2205.14135)."""


def operations(block: Attention, sizes: Legend, plan: MegatronPlan) -> tuple[Operation, ...]:
    """linear_qkv, q/k norms, core attention, linear_proj."""
    n, width = sizes.n, sizes.bytes
    h_in = block.input_size or sizes.h
    h_out = block.output_size or sizes.h
    d, d_v = block.head_dim, block.v_head_dim or block.head_dim
    a_t, g_t = block.heads // sizes.t, max(1, block.kv_heads // sizes.t)
    q, k, v = a_t * d * n * width, g_t * d * n * width, g_t * d_v * n * width
    out = a_t * d_v * n * width
    unfused = plan.step.attention_backend == "unfused"
    keys, values = (q, out) if unfused else (k, v)
    gate = block.gate_width // sizes.t * n * width
    packed = q + k + v + gate
    qkv_rows = (block.heads * d + block.kv_heads * (d + d_v) + block.gate_width) // sizes.t
    gathered = h_in * sizes.n_gathered * width
    table = [
        Operation(
            "linear_qkv",
            (
                forward("gathered input [n, h]", gathered),
                forward("packed qkv [n, (a + 2g) d / t]", packed),
                backward("gathered input [n, h]", gathered),
                backward("input gradient [n, h]", h_in * n * width),
                backward("packed gradient [n, (a + 2g) d / t]", packed),
            ),
            gemm=(qkv_rows, h_in),
        )
    ]
    if block.q_norm is not None:
        statistics = statistics_bytes(block.q_norm)
        heads = (a_t + g_t) if block.k_norm is not None else a_t
        table.append(
            Operation(
                "qk_layernorm",
                (
                    saved("q before its norm [n, a d / t]", q),
                    saved("k before its norm [n, g d / t]", k if block.k_norm is not None else 0),
                    saved("statistics [n, (a + g) / t]", statistics * heads * n),
                ),
            )
        )
    table.append(
        Operation(
            "core_attention",
            (
                saved("q [n, a d / t]", q, OFFLOADED + "core_attn"),
                saved("k [n, g d / t], repeated to a where unfused", keys, OFFLOADED + "core_attn"),
                saved("v [n, g d_v / t], likewise", values, OFFLOADED + "core_attn"),
                *kernel(a_t, out, k + v, sizes, plan),
                backward("gradients of q, k, v", q + keys + values),
                backward("gradient of the output", out),
            ),
        )
    )
    if gate:
        table.append(
            Operation(
                "output_gate",
                (saved("gate [n, a d / t]", gate), saved("attention output [n, a d_v / t]", out)),
            )
        )
    table.append(projection(out, a_t * d_v, h_out, sizes))
    return tuple(table)


def kernel(
    heads: int, out: int, keys_and_values: int, sizes: Legend, plan: MegatronPlan
) -> tuple[Tensor, ...]:
    """What the attention kernel keeps and borrows besides q, k, v and its output [n, a d_v / t].

    Sources: TransformerEngine's backends.py and context_parallel.py. Unfused attention keeps the
    softmax, and with dropout also the mask (1 byte) and the dropped scores. FlashAttention's
    output is a copy in another layout where b > 1. An all-to-all over context-parallel ranks
    keeps the output before the exchange; point-to-point keeps it transposed where b > 1, and
    borrows what every step of its ring has; an all-gather borrows the keys and values of the whole
    sequence.
    """
    n = sizes.n
    table = []
    if plan.step.attention_backend == "unfused":
        scores = heads * sizes.s * sizes.s * sizes.c * sizes.b
        kept = 2 * sizes.bytes + 1 if plan.step.attention_dropout else sizes.bytes
        table.append(saved("scores [b, a / t, s, s]", kept * scores, "core_attn"))
        table.append(forward("scores before softmax", sizes.bytes * scores))
        table.append(backward("gradient of the scores", 2 * sizes.bytes * scores))
        return tuple(table)
    table.append(saved("logsumexp [a / t, n]", LOGSUMEXP_BYTES * heads * n, "core_attn"))
    copied = sizes.b > 1 and plan.step.attention_backend == "flash"
    if sizes.c > 1:
        exchanged = plan.layout.cp_comm_type in ("a2a", "a2a+p2p")
        transposed = plan.layout.cp_comm_type == "p2p" and sizes.b > 1
        copied = copied or exchanged or transposed
    if copied:
        table.append(saved("output in the kernel's layout [n, a d_v / t]", out, "core_attn"))
    if plan.layout.cp_ring > 1:
        steps = plan.layout.cp_ring * (out + keys_and_values)
        table.append(forward("outputs, keys and values of every step of the ring", steps))
    if sizes.c > 1 and plan.layout.cp_comm_type == "all_gather":
        together = 2 * sizes.c * keys_and_values
        table.append(forward("keys and values of all ranks, in two orders", together))
        table.append(backward("keys and values of all ranks with gradients", together))
    return tuple(table)


def projection(out: int, in_rows: int, h_out: int, sizes: Legend) -> Operation:
    """linear_proj, row-parallel: it keeps its input, the attention's output."""
    full = h_out * sizes.n * sizes.bytes
    return Operation(
        "linear_proj",
        (
            saved("attention output [n, a d_v / t]", out, OFFLOADED + "attn_proj"),
            saved("attention output in fp8", sizes.copied(out)),
            forward("output before its reduction [n, h]", full if sizes.t > 1 else 0),
            backward("gathered gradient [n, h]", h_out * sizes.n_gathered * sizes.bytes),
            backward("input gradient [n, a d_v / t]", out),
        ),
        gemm=(h_out, in_rows),
    )
