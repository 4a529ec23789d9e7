"""Multi-head latent attention as modules of PyTorch. Symbols: estimator.legend; r_q, r_kv latent
ranks, d_n and d_r query/key dimensions without and with rotary positions, d_v value dimension.

Keys are put together from two parts, so they are new tensors; values are a part of what the up
projection makes and keep all of it alive. Sources: transformers' modeling_deepseek_v3.py,
torchtitan's models/deepseek_v3.
"""

from trainfit.estimator.blocks.attention.pytorch import gate, ring
from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.ledger import Kind, Operation, Role, backward, saved
from trainfit.estimator.legend import Input, PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.blocks import LatentAttention, Norm

FP32 = 4
"""Bytes of an element in fp32."""


def operations(
    block: LatentAttention, sizes: PytorchLegend, plan: PytorchPlan
) -> tuple[Operation, ...]:
    """Down projections, latent norms, up projections, the kernel, output projection."""
    n, h, width = sizes.n, sizes.h, sizes.bytes
    a = block.heads // sizes.t
    d_n, d_r, d_v = block.qk_nope_head_dim, block.qk_rope_head_dim, block.v_head_dim
    q, v = a * (d_n + d_r), a * d_v
    r_q, r_kv = block.q_lora_rank, block.kv_lora_rank
    table: list[Operation] = []
    if r_q is None:
        table.append(linear("q_proj", n, h, q, sizes, reads="residual", joins=True))
    else:
        table += [
            linear("q_a_proj", n, h, r_q, sizes, reads="residual", joins=True),
            _latent_norm(r_q, block, sizes, plan, "q_b_proj"),
            linear("q_b_proj", n, r_q, q, sizes, reads="shared"),
        ]
    table += [
        linear("kv_a_proj_with_mqa", n, h, r_kv + d_r, sizes, reads="residual"),
        _latent_norm(r_kv, block, sizes, plan, "kv_b_proj"),
        linear("kv_b_proj", n, r_kv, a * (d_n + d_v), sizes, reads="shared"),
        Operation(
            "core_attention",
            (
                saved("q [n, a (d_n + d_r) / t]", q * n * width),
                saved("k [n, a (d_n + d_r) / t]", q * n * width),
                saved("up projection, of which v is a part", a * (d_n + d_v) * n * width),
                saved("output [n, a d_v / t]", v * n * width, Role.KERNEL_OUTPUT),
                saved("logsumexp [a / t, n] fp32", FP32 * a * n, Role.KERNEL_OUTPUT),
                backward("gradients of q, k, v", (2 * q + v) * n * width),
                backward("gradient of q in fp32", FP32 * q * n),
                backward("sums of output and its gradient [a / t, n] fp32", FP32 * a * n),
                backward("gradient of the output", v * n * width),
                *ring(q * n * width, (q + v) * n * width, sizes),
            ),
            kind=Kind.ATTENTION,
        ),
    ]
    reads: Input = "shared"
    if block.gate_width:
        gates, reads = block.gate_width // sizes.t, "own"
        table.append(linear("g_proj", n, h, gates, sizes, reads="residual", joins=True))
        table.append(gate(n * gates, v * n * width, sizes, plan.model.implementation))
    table.append(linear("o_proj", n, v, h, sizes, reads=reads, ends=True))
    return tuple(table)


def _latent_norm(
    rank: int, block: LatentAttention, sizes: PytorchLegend, plan: PytorchPlan, reader: str
) -> Operation:
    return norm(
        Norm(kind=block.latent_norms or "rmsnorm", width=rank),
        sizes.n,
        sizes,
        by=plan.model.implementation,
        width=sizes.bytes,
        kept=sizes.keeps_input(reader),
    )
