"""Multi-head latent attention as megatron-core runs it with TransformerEngine.

Symbols: estimator.legend; r_q, r_kv latent ranks, d_n and d_r query/key dimensions without and
with rotary positions, d_v value dimension. Source: multi_latent_attention.py and
fused_mla_yarn_rope_apply.py: queries are rotated in place, keys and values are new tensors, and
the output of kv_up is not kept.
"""

from trainfit.estimator.blocks.attention.transformer_engine import kernel, projection
from trainfit.estimator.blocks.norm.transformer_engine import STATISTIC_BYTES
from trainfit.estimator.ledger import Operation, Tensor, backward, forward, saved
from trainfit.estimator.legend import Legend
from trainfit.resolve.plan import OFFLOADED, MegatronPlan
from trainfit.specs.blocks import LatentAttention


def operations(block: LatentAttention, sizes: Legend, plan: MegatronPlan) -> tuple[Operation, ...]:
    """Down projections, latent norms, up projections, core attention, linear_proj."""
    n, n_shard, width = sizes.n, sizes.n_shard, sizes.bytes
    a_t = block.heads // sizes.t
    d_qk = block.qk_nope_head_dim + block.qk_rope_head_dim
    r_q, r_kv = block.q_lora_rank, block.kv_lora_rank
    q = a_t * d_qk * n * width
    v = a_t * block.v_head_dim * n * width
    kv_up = a_t * (block.qk_nope_head_dim + block.v_head_dim)
    table: list[Operation] = []
    if r_q is None:
        table.append(_up("linear_q_proj", a_t * d_qk, sizes.h, sizes))
    else:
        latent = _latent("q latent [n', r_q]", r_q, block, sizes)
        table.append(Operation("linear_q_down_proj", latent, gemm=(r_q, sizes.h)))
        table.append(_up("linear_q_up_proj", a_t * d_qk, r_q, sizes))
    packed = (r_kv + block.qk_rope_head_dim) * n_shard * width
    table += [
        Operation(
            "linear_kv_down_proj",
            (
                saved("norm output in fp8 [n', h]", sizes.copied(sizes.act)),
                *_latent("kv latent [n', r_kv]", r_kv, block, sizes),
                forward("packed", packed),
            ),
            gemm=(r_kv + block.qk_rope_head_dim, sizes.h),
        ),
        _up("linear_kv_up_proj", kv_up, r_kv, sizes),
        Operation(
            "core_attention",
            (
                saved("q [n, a (d_n + d_r) / t]", q, "mla_up_proj", OFFLOADED + "core_attn"),
                saved("k [n, a (d_n + d_r) / t]", q, "mla_up_proj", OFFLOADED + "core_attn"),
                saved("v [n, a d_v / t]", v, "mla_up_proj", OFFLOADED + "core_attn"),
                *kernel(a_t, v, q + v, sizes, plan),
                backward("gradients of q, k, v", 2 * q + v),
                backward("gradient of the output", v),
            ),
        ),
        projection(v, a_t * block.v_head_dim, sizes.h, sizes),
    ]
    return tuple(table)


def _latent(name: str, rank: int, block: LatentAttention, sizes: Legend) -> tuple[Tensor, ...]:
    """A latent: the input of its norm, the norm's output for the up projection, statistics."""
    latent = rank * sizes.n_shard * sizes.bytes
    if block.latent_norms is None:
        return (saved(name, latent),)
    statistics = 2 if block.latent_norms == "layernorm" else 1
    return (
        saved(name, latent),
        saved(f"{name} normalised", sizes.kept(latent)),
        saved("statistics [n']", STATISTIC_BYTES * statistics * sizes.n_shard),
    )


def _up(name: str, rows: int, columns: int, sizes: Legend) -> Operation:
    """A column-parallel projection [rows, columns] of a tensor that is kept elsewhere."""
    output = rows * sizes.n * sizes.bytes
    gathered = columns * sizes.n_gathered * sizes.bytes
    return Operation(
        name,
        (
            forward("gathered input", gathered),
            forward("output", output),
            backward("gathered input", gathered),
            backward("input gradient", columns * sizes.n * sizes.bytes),
            backward("output gradient", output),
        ),
        gemm=(rows, columns),
    )
