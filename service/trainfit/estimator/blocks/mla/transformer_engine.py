"""Multi-head latent attention as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend; r_q, r_kv latent ranks, d_n and d_r query/key dimensions without and
with rotary positions, d_v value dimension. Source: multi_latent_attention.py and
fused_mla_yarn_rope_apply.py: queries are rotated in place, keys and values are new tensors, and
the output of kv_up is not kept.
"""

from trainfit.estimator.operations.core_attention import CORE
from trainfit.estimator.operations.transformer_engine import TransformerEngine
from trainfit.estimator.tensors import Tensor
from trainfit.resolve.megatron.plan import OFFLOADED
from trainfit.specs.blocks import LatentAttention

UP = (OFFLOADED + CORE, "mla_up_proj")
"""Recompute `mla_up_proj` makes queries, keys and values again from their latents; where core
attention is offloaded they are fetched all the same."""


def latent_attention(step: TransformerEngine, x: Tensor, block: LatentAttention) -> None:
    """Down projections, latent norms, up projections, core attention, linear_proj."""
    n, t = step.sizes.n, step.sizes.t
    a, r_kv, d_v = step.named(a=block.heads, r_kv=block.kv_lora_rank, d_v=block.v_head_dim)
    d_n, d_r = step.named(d_n=block.qk_nope_head_dim, d_r=block.qk_rope_head_dim)
    if block.q_lora_rank is None:
        step.column_linear("linear_q_proj", x, a * (d_n + d_r) // t, "queries")
    else:
        (r_q,) = step.named(r_q=block.q_lora_rank)
        latent = step.linear("linear_q_down_proj", x, r_q, "q latent")
        normed = _normed(step, latent, block)
        step.column_linear("linear_q_up_proj", normed, a * (d_n + d_r) // t, "queries")
    step.linear("linear_kv_down_proj", x, r_kv + d_r, "kv latent with rotary keys")
    latent = step.tensor("kv latent", step.sizes.n_shard, r_kv)
    normed = _normed(step, latent, block)
    step.column_linear("linear_kv_up_proj", normed, a * (d_n + d_v) // t, "keys and values")
    q = step.tensor("q", n, a // t, d_n + d_r, dropped_by=UP)
    k = step.tensor("k", n, a // t, d_n + d_r, dropped_by=UP)
    v = step.tensor("v", n, a // t, d_v, dropped_by=UP)
    out = step.attention(q, k, v, window=block.window)
    step.row_linear("linear_proj", out, step.sizes.h)


def _normed(step: TransformerEngine, latent: Tensor, block: LatentAttention) -> Tensor:
    """A latent [n', r] behind its norm, where it has one."""
    if block.latent_norms is None:
        return latent
    width = step.sizes.linear_input_bytes
    normed = step.tensor(f"{latent.name} normalised", *latent.shape, width=width)
    step.norm(block.latent_norms, latent, "latent_norm", output=normed)
    return normed
