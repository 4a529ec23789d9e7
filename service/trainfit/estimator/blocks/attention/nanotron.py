"""Softmax attention as nanotron's Llama runs it.

Symbols: estimator.legend. Source: nanotron's models/llama.py (CausalSelfAttention).
"""

from trainfit.estimator.operations.nanotron import NanotronProgram
from trainfit.estimator.tensors import Tensor
from trainfit.specs.blocks import Attention


def attention(step: NanotronProgram, x: Tensor, block: Attention) -> None:
    """qkv_proj, a contiguous copy of each of q, k and v, rotary positions, the kernel, o_proj."""
    n, t = step.sizes.n, step.sizes.t
    a, g, d = step.named(a=block.heads, g=block.kv_heads, d=block.head_dim)
    a, g = a // t, g // t
    packed = step.column_linear("qkv_proj", x, (a + 2 * g) * d, "packed qkv")
    copies = step.tensor("q, k and v, contiguous", *packed.shape)
    # The frame of forward holds both until it returns.
    step.operation("split", holds=(packed, copies))
    q, kv = step.tensor("q", n, a, d), step.tensor("kv", n, 2, g, d)
    # flash-attn's rotary writes q anew, and k in its place in a copy of k and v put together.
    together = step.tensor("k and v put together", *kv.shape)
    gradient = step.gradient(q)
    step.operation("flash_rotary", makes=(q, kv), borrows=(together,), backward=(gradient,))
    out = step.flash_attention(q, kv)
    step.row_linear("o_proj", _as_read(step, out), step.sizes.h)


def _as_read(step: NanotronProgram, out: Tensor) -> Tensor:
    """o_proj reads the output with its tokens before its samples: for several samples a copy, which
    PyTorch's own product keeps, and which the asynchronous linear makes in backward.
    """
    apart = step.sizes.b > 1 and not _runs_asynchronously(step)
    return step.tensor("output, tokens before samples", *out.shape) if apart else out


def _runs_asynchronously(step: NanotronProgram) -> bool:
    """Row-parallel linears are so under REDUCE_SCATTER only, and where there is one rank."""
    own = step.scatters or step.sizes.t == 1
    return own and step.plan.framework.tp_linear_async_communication
