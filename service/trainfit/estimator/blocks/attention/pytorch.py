"""Softmax attention as modules of PyTorch. Symbols: estimator.legend; d_v the value head dimension.

Sources: transformers' modeling_llama.py and integrations/sdpa_attention.py; torchtitan's
models/common/attention.py.
"""

from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.operations import scaled_dot_product
from trainfit.estimator.operations.fused_adapters import fused_products
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.rotary import Projected
from trainfit.estimator.operations.widths import FP32
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Attention, Norm

HONOURS = frozenset({"gate_width", "k_norm", "q_norm", "sinks"})


def attention(step: Modules, x: Tensor, block: Attention) -> None:
    """Projections, norms of queries and keys, rotary positions, the kernel, the gate of its output,
    o_proj.
    """
    t = step.sizes.t
    a, g, d = step.named(a=block.heads, g=block.kv_heads, d=block.head_dim)
    (d_v,) = step.named(d_v=block.v_head_dim) if block.v_head_dim else (d,)
    a, g = a // t, max(g // t, 1) if block.owns_kv else 0
    if g and step.way.step.ulysses and step.sizes.c > g:
        g = step.sizes.c  # a rank has a head of them at least
    packed, projected = _projections(step, x, block, (a * d, g * d, g * d_v))
    if block.q_norm is not None:
        of_q = _norm_heads(step, block.q_norm, a, d)
        projected = projected and projected._replace(q=of_q)
    if block.k_norm is not None and g:
        of_k = _norm_heads(step, block.k_norm, g, d)
        projected = projected and projected._replace(k=of_k)
    q, k, v = _heads(step, block, packed, (a, g, d, d_v))
    turned = projected if block.rope and _writes_turning_out(step) else None
    out = _attend(step, q, k, v, block, turned)
    if block.sinks and step.way.step.attention_backend != "eager":
        out = step.scaled_by_sinks(out, a)
    if block.gate_width:
        module, gates = step.by.gate_projection, block.gate_width // t
        if module != "q_proj":
            step.linear(module, x, gates, joins=True)
        out = step.gate(out, gates, module)
    features = block.output_size or step.sizes.h
    if not step.by.packed_qkv and step.sizes.fuses("o", "o_proj"):
        fused_products(step, out, {"o_proj": features}, bias=block.out_bias)
    else:
        step.linear_out("o_proj", out, features, bias=block.out_bias)


def _projections(
    step: Modules, x: Tensor, block: Attention, widths: tuple[int, int, int]
) -> tuple[Tensor | None, Projected | None]:
    """Three products that read the same, or one, which is answered; else what was projected, if it
    is queries and keys and nothing besides.
    """
    q, k, v = widths
    bias = block.qkv_bias
    if step.by.packed_qkv:
        return step.narrowed(step.linear("q_proj", x, q + k + v, bias=bias)), None
    if step.way.step.fuses_qkv and block.owns_kv:
        return _copied(step, step.linear("q_proj", x, q + k + v, bias=bias))
    gates = block.gate_width // step.sizes.t if step.by.gate_projection == "q_proj" else 0
    products = {"q_proj": q + gates, "k_proj": k}
    if not block.key_is_value:
        products["v_proj"] = v
    if block.owns_kv and step.sizes.fuses("qkv", *products):
        fused_products(step, x, products, bias=bias)
        return None, None
    queries = step.linear("q_proj", x, q + gates, bias=bias, joins=block.owns_kv)
    if not block.owns_kv:
        return None, None
    keys = step.linear("k_proj", x, k, bias=bias, joins=True)
    if not block.key_is_value:
        step.linear("v_proj", x, v, bias=bias)
    alone = not gates and queries.width == keys.width == step.sizes.bytes
    return None, Projected(queries, keys) if alone else None


def _copied(step: Modules, packed: Tensor) -> tuple[None, None]:
    """Queries, keys and values copied out of one product, whose gradient joins theirs. Source:
    torchtitan's models/common/attention.py (FusedQKVLinear).
    """
    parts = step.tensor("queries, keys and values", *packed.shape)
    gradients = step.tensor("their gradients", *packed.shape)
    step.operation(
        "split",
        borrows=(packed, parts),
        backward=(gradients, step.passed_back(packed, "output gradient")),
        reads=(packed,),
    )
    return None, None


def _writes_turning_out(step: Modules) -> bool:
    """Whether positions turn queries and keys in single operations, on all their dimensions."""
    one_product = step.way.step.turns_as_complex or step.sizes.fused
    return not (one_product or step.by.partial_rotary)


def _norm_heads(step: Modules, each: Norm, heads: int, d: int) -> Tensor:
    """A norm of every head by itself, or of all of them together."""
    n = step.sizes.n
    if each.width > d:
        return norm(step, step.tensor("heads", n, each.width), each, "qk_norm", kind=None)
    one = each.model_copy(update={"copies": 1})
    return norm(step, step.tensor("heads", n, heads, d), one, "qk_norm", kind=None)


def _heads(
    step: Modules, block: Attention, packed: Tensor | None, sizes: tuple[int, int, int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """q [n, a / t, d], k and v [keys, g / t, d] as the kernel reads them: parts of a packed product
    unless they are turned by positions, repeated for every head, or put behind a prefix.
    """
    (a, g, d, d_v), n, prefix = sizes, step.sizes.n, step.sizes.prefix
    repeated = _is_repeated(step, block, a, g)
    keys, read = n + prefix * step.sizes.b, a if repeated else g
    width = FP32 if _is_unfused(step, block) else 0
    q = step.tensor("q", n, a, d, width=width)
    k = step.tensor("k", keys, read, d, width=width)
    v = step.tensor("v", keys, read, d_v, width=width)
    if packed is not None:
        if not block.rope and (prefix or not repeated):
            q = step.part(packed, "q", *q.shape)
        if not repeated and not prefix:
            k = k if block.rope else step.part(packed, "k", *k.shape)
            v = step.part(packed, "v", *v.shape)
    if prefix and (repeated or step.sizes.residual_bytes > step.sizes.bytes):
        width = step.sizes.residual_bytes
        step.cache(step.several("keys and values in the cache", 2, keys, g, d, width=width))
    return q, k, v


def _attend(
    step: Modules, q: Tensor, k: Tensor, v: Tensor, block: Attention, turned: Projected | None
) -> Tensor:
    backend, rotated = step.way.step.attention_backend, block.rope
    if backend == "eager":
        return scaled_dot_product.eager(
            step, q, k, v, rotated=rotated, sinks=block.sinks, window=block.window
        )
    if _is_unfused(step, block):
        return scaled_dot_product.math(step, q, k, v, rotated=rotated, window=block.window)
    return scaled_dot_product.fused(
        step,
        *(q, k, v),
        rotated=rotated,
        turned=turned,
        masked=backend == "sdpa" and _is_masked(step, block),
        transposed=step.by.partial_rotary,
        window=block.window,
    )


def _is_repeated(step: Modules, block: Attention, a: int, g: int) -> bool:
    """Whether keys and values are copied to every query head: for eager attention, and where the
    kernel takes a mask (transformers' use_gqa_in_sdpa). A single head is not copied but expanded.
    """
    if _is_unfused(step, block):
        return True
    backend = step.way.step.attention_backend
    masked = backend == "sdpa" and _is_masked(step, block)
    return 1 < g < a and (step.way.step.repeats_kv or backend == "eager" or masked)


def _is_masked(step: Modules, block: Attention) -> bool:
    """Whether a window is shorter than the sequence, or there are keys before it, so that causality
    is not all.
    """
    if step.by.always_masks or step.sizes.prefix:
        return True
    return block.window is not None and step.sizes.s * step.sizes.c >= block.window


def _is_unfused(step: Modules, block: Attention) -> bool:
    """Whether scaled_dot_product_attention finds no fused kernel: in fp32, and with the mask that
    falcon always sends, the one that there is takes as many keys as queries. Before a prefix keys
    are copied to every query. Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
    """
    if step.way.step.attention_backend != "sdpa" or block.kv_heads == block.heads:
        return False
    masked = step.by.always_masks and block.kv_heads == 1
    return masked or (step.way.step.activation_bytes == FP32 and not step.sizes.prefix)
