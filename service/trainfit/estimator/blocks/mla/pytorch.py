"""Multi-head latent attention as modules of PyTorch. Symbols: estimator.legend; r_q, r_kv latent
ranks, d_n and d_r query/key dimensions without and with rotary positions, d_v value dimension.

Keys are put together from two parts, so they are new tensors; values are a part of what the up
projection makes and keep all of it alive. Sources: transformers' modeling_deepseek_v3.py,
torchtitan's models/deepseek_v3.
"""

from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.operations import scaled_dot_product
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import LatentAttention, Norm

HONOURS = frozenset({"gate_width"})


def latent_attention(step: Modules, x: Tensor, block: LatentAttention) -> None:
    """Down projections, latent norms, up projections, the kernel, its output's gate, o_proj."""
    n, t = step.sizes.n, step.sizes.t
    a, r_kv, d_v = step.named(a=block.heads, r_kv=block.kv_lora_rank, d_v=block.v_head_dim)
    d_n, d_r = step.named(d_n=block.qk_nope_head_dim, d_r=block.qk_rope_head_dim)
    a //= t
    if block.q_lora_rank is None:
        step.linear("q_proj", x, a * (d_n + d_r), joins=True)
    else:
        (r_q,) = step.named(r_q=block.q_lora_rank)
        latent = step.linear("q_a_proj", x, r_q, joins=True)
        step.linear("q_b_proj", _normed(step, latent, block), a * (d_n + d_r))
    step.linear("kv_a_proj_with_mqa", x, r_kv + d_r)
    latent = _normed(step, step.tensor("kv latent", n, r_kv), block)
    up = step.narrowed(step.linear("kv_b_proj", latent, a * (d_n + d_v)))
    q, k = (step.tensor(name, n, a, d_n + d_r) for name in ("q", "k"))
    v = step.part(up, "v", n, a, d_v)
    out = scaled_dot_product.fused(step, q, k, v, window=block.window)
    if block.gate_width:
        gates = block.gate_width // t
        step.linear("g_proj", x, gates, joins=True)
        out = step.gate(out, gates, "g_proj")
    step.linear_out("o_proj", out, step.sizes.h)


def _normed(step: Modules, latent: Tensor, block: LatentAttention) -> Tensor:
    """A latent [n, r] behind its norm."""
    kind = block.latent_norms or "rmsnorm"
    return norm(step, step.narrowed(latent), Norm(kind=kind, width=latent.shape[-1]))
