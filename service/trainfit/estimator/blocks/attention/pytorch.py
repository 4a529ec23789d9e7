"""Softmax attention as modules of PyTorch. Symbols: estimator.legend; d_v the value head dimension.

Sources: transformers' modeling_llama.py and integrations/sdpa_attention.py; torchtitan's
models/common/attention.py; aten/src/ATen/native/transformers/cuda (flash_api.cpp, attention.cu).
"""

from collections.abc import Iterator
from functools import partial

from trainfit.estimator.blocks.linear.pytorch import linear
from trainfit.estimator.blocks.norm.pytorch import norm
from trainfit.estimator.ledger import Kind, Operation, Role, Row, backward, forward, saved
from trainfit.estimator.legend import Input, PytorchLegend
from trainfit.resolve.plan import PytorchPlan
from trainfit.specs.architecture import Implementation
from trainfit.specs.blocks import Attention

FP32 = 4
"""Bytes of an element in fp32."""


def operations(block: Attention, sizes: PytorchLegend, plan: PytorchPlan) -> tuple[Operation, ...]:
    """Projections, norms of queries and keys, rotary positions, the kernel, output projection."""
    n, width = sizes.n, sizes.bytes
    h_in, h_out = block.input_size or sizes.h, block.output_size or sizes.h
    d, d_v = block.head_dim, block.v_head_dim or block.head_dim
    a, g = block.heads // sizes.t, max(1, block.kv_heads // sizes.t)
    owned = g if block.owns_kv else 0
    read = a if _is_repeated(block, g, sizes, plan) else owned
    keys = _rows_of_keys(sizes)
    q, k, v = a * d * n * width, read * d * keys * width, read * d_v * keys * width
    out = a * d_v * n * width
    packed = plan.model.implementation.packed_qkv
    as_made = read == owned and not sizes.prefix
    beside = 2 * owned * d * n * width if packed and sizes.prefix and not block.rope else 0
    table = [
        *_projections(block, a, owned, h_in, sizes, plan.model.implementation),
        *_norms(block, a, owned, sizes, plan),
        Operation(
            "core_attention",
            (
                *_inputs(q, k, v, rotated=block.rope, packed=packed and as_made),
                saved("packed product, of which q is a part", beside),
                *_kernel(block, a, read, sizes, plan),
                *(() if _keeps_scores(block, sizes, plan) else _gradients(q + k + v, out)),
                *ring(q, k + v, sizes),
            ),
            kind=Kind.ATTENTION,
        ),
    ]
    if block.gate_width:
        gates = block.gate_width // sizes.t * n
        table += _gate_projection(block, h_in, sizes, plan.model.implementation)
        table.append(gate(gates, out, sizes, plan.model.implementation))
    reads: Input = "own" if block.gate_width else "shared"
    table.append(
        linear("o_proj", n, a * d_v, h_out, sizes, reads=reads, ends=True, bias=block.out_bias)
    )
    return tuple(table)


def _gate_projection(
    block: Attention, inputs: int, sizes: PytorchLegend, by: Implementation
) -> Iterator[Operation]:
    """Gates [n, a] or [n, a d / t] from what queries come from, unless they come with them."""
    name = by.gate_projection
    if name == "q_proj":
        return
    width = block.gate_width // sizes.t
    yield linear(name, sizes.n, inputs, width, sizes, reads="residual", joins=True)


def gate(gates: int, out: int, sizes: PytorchLegend, by: Implementation) -> Operation:
    """The kernel's output of `out` bytes times one of `gates` for each head or feature: both
    factors are kept. o_proj lists the product. A sigmoid's gradient comes from what it made, a
    softplus's from what it read in fp32. Sources: torch/csrc/autograd/derivatives.yaml (mul,
    sigmoid, softplus); transformers' modeling_step3p7.py, modeling_lfm3.py, modeling_laguna.py.
    """
    softplus = by.gate_activation == "softplus"
    return Operation(
        "gate",
        (
            saved("gates [n, a / t] or [n, a d_v / t]", gates * sizes.bytes),
            saved("scores of the gates in fp32", FP32 * gates if softplus else 0),
            backward("gradients of product, output and gates [n, a d_v / t]", 3 * out),
        ),
    )


def _rows_of_keys(sizes: PytorchLegend) -> int:
    """Keys of a micro-batch: of its tokens, and of the prefix of each sample."""
    return sizes.n + sizes.prefix * sizes.b


def cached(block: Attention, sizes: PytorchLegend, plan: PytorchPlan) -> int:
    """Bytes of keys and values that a prefix leaves in the cache, where the kernel reads copies of
    them: of every query head, or narrowed by autocast.
    """
    g = block.kv_heads
    copied = _is_repeated(block, g, sizes, plan) or sizes.residual_bytes > sizes.bytes
    if not sizes.prefix or not copied:
        return 0
    return 2 * g * block.head_dim * _rows_of_keys(sizes) * sizes.residual_bytes


def _is_repeated(block: Attention, g: int, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether keys and values are copied to every query head: for eager attention, and where the
    kernel takes a mask (transformers' use_gqa_in_sdpa). A single head is not copied but expanded.
    """
    if _runs_unfused(block, sizes, plan):
        return True
    if not 1 < g < block.heads or not block.owns_kv:
        return False
    masked = _is_masked(block, sizes, plan) and plan.step.attention_backend == "sdpa"
    return plan.step.repeats_kv or plan.step.attention_backend == "eager" or masked


def _is_masked(block: Attention, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether a window is shorter than the sequence, or there are keys before it, so that causality
    is not all.
    """
    if plan.model.implementation.always_masks or sizes.prefix:
        return True
    return block.window is not None and sizes.s * sizes.c >= block.window


def _norms(
    block: Attention, a: int, owned: int, sizes: PytorchLegend, plan: PytorchPlan
) -> Iterator[Operation]:
    """Norms of queries and keys, over each head or over all of them together."""
    for each, heads in ((block.q_norm, a), (block.k_norm, owned)):
        if each is not None and heads:
            whole = each.width > block.head_dim
            yield norm(
                each if whole else each.model_copy(update={"copies": 1}),
                sizes.n if whole else sizes.n * heads,
                sizes,
                by=plan.model.implementation,
                width=sizes.bytes,
                kept=False,
            )._replace(name="qk_norm", kind=None)


def _projections(
    block: Attention, a: int, owned: int, h_in: int, sizes: PytorchLegend, by: Implementation
) -> Iterator[Operation]:
    """One product, or three that read the same input."""
    d = block.head_dim
    gates = block.gate_width // sizes.t if by.gate_projection == "q_proj" else 0
    if by.packed_qkv:
        outputs = a * d + owned * (d + (block.v_head_dim or d))
        bias = block.qkv_bias
        yield linear("q_proj", sizes.n, h_in, outputs, sizes, reads="residual", bias=bias)
        return
    into = partial(linear, rows=sizes.n, inputs=h_in, sizes=sizes, bias=block.qkv_bias)
    yield into("q_proj", outputs=a * d + gates, reads="residual", joins=bool(owned))
    if owned:
        yield into("k_proj", outputs=owned * d, reads="residual", joins=True)
        if not block.key_is_value:
            yield into("v_proj", outputs=owned * (block.v_head_dim or d), reads="residual")


def _inputs(q: int, k: int, v: int, *, rotated: bool, packed: bool) -> Iterator[Row]:
    """What the kernel reads. Rotated queries and keys are new tensors; a value that is a part of
    a packed product keeps all of it alive.
    """
    yield saved("q [n, a d / t]", q)
    yield saved("k [n, g d / t]", k)
    yield saved("v [n, g d_v / t]", v)
    if rotated:
        if packed:
            yield saved("packed product, of which v is a part", q + k)
        yield forward("products with cos and sin", 2 * q)


def _kernel(
    block: Attention, a: int, read: int, sizes: PytorchLegend, plan: PytorchPlan
) -> Iterator[Row]:
    """What the kernel keeps and borrows besides q, k and v of `read` heads."""
    n, width = sizes.n, sizes.bytes
    d, d_v = block.head_dim, block.v_head_dim or block.head_dim
    out = a * d_v * n * width
    if plan.step.attention_backend == "eager":
        yield from _eager(a, out, sizes, plan)
        return
    if _runs_unfused(block, sizes, plan):
        yield from _unfused(a, d, out, sizes)
        return
    yield saved("output [n, a d_v / t]", out, Role.KERNEL_OUTPUT)
    yield saved("logsumexp [a / t, n] fp32", FP32 * a * n, Role.KERNEL_OUTPUT)
    read_again = bool(block.gate_width) or sizes.keeps_input("o_proj", reads="shared")
    if plan.model.implementation.partial_rotary and read_again:
        yield saved("output, tokens before heads [n, a d_v / t]", out)
    if _is_masked(block, sizes, plan) and plan.step.attention_backend == "sdpa":
        mask = width * sizes.b * sizes.s * (sizes.s + sizes.prefix)
        yield saved("mask of the window [b, 1, s, s]", mask)
    yield backward("gradient of q in fp32 [n, a d / t]", FP32 * a * d * n)
    yield backward("sums of output and its gradient [a / t, n] fp32", FP32 * a * n)
    if 0 < read < a:
        repeated = a * (d + d_v) * _rows_of_keys(sizes) * width
        yield backward("gradients of repeated keys and values", repeated)


def _keeps_scores(block: Attention, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    return plan.step.attention_backend == "eager" or _runs_unfused(block, sizes, plan)


def _gradients(inputs: int, out: int) -> Iterator[Row]:
    """Of a fused kernel. Gradients of scores are larger, and gone before those of q and k come."""
    yield backward("gradients of q, k, v", inputs)
    yield backward("gradient of the output", out)


def ring(q: int, kv: int, sizes: PytorchLegend) -> Iterator[Row]:
    """What context-parallel ranks pass round: keys and values of all ranks, gathered at once, and
    in backward gradients in fp32, those of keys and values as they come and go besides. `q` and
    `kv` are bytes of this rank's. Source: torch/distributed/tensor/experimental/_context_parallel
    (_attention.py: _templated_ring_attention and its backward).
    """
    if sizes.c == 1:
        return
    in_full = FP32 * (q + 3 * kv) // sizes.bytes
    yield forward("keys and values of all ranks", sizes.c * kv)
    yield backward("keys and values of all ranks", sizes.c * kv)
    yield backward("gradients in fp32, added up over ranks", in_full)


def _runs_unfused(block: Attention, sizes: PytorchLegend, plan: PytorchPlan) -> bool:
    """Whether scaled_dot_product_attention finds no fused kernel: in fp32, and with the mask that
    falcon always sends, the one that there is takes as many keys as queries. Before a prefix keys
    are copied to every query.
    Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
    """
    if plan.step.attention_backend != "sdpa" or block.kv_heads == block.heads:
        return False
    masked = plan.model.implementation.always_masks and block.kv_heads == 1
    return masked or (plan.step.activation_bytes == FP32 and not sizes.prefix)


def _unfused(a: int, d: int, out: int, sizes: PytorchLegend) -> Iterator[Row]:
    """Scores in fp32 [b, a / t, s, s], made from queries, keys and values in fp32.
    Source: aten/src/ATen/native/transformers/attention.cpp.
    """
    scores = FP32 * sizes.b * a * sizes.s * sizes.s * sizes.c
    yield saved("q, k and v beyond their own type", 3 * a * d * sizes.n * (FP32 - sizes.bytes))
    yield saved("softmax [b, a / t, s, s] fp32", scores)
    yield saved("output, transposed [n, a d_v / t]", out)
    yield forward("scores", scores)
    yield backward("gradients of the scores", 2 * scores)


def _eager(a: int, out: int, sizes: PytorchLegend, plan: PytorchPlan) -> Iterator[Row]:
    """Attention of single operations. Autocast makes every softmax in fp32."""
    as_read = plan.model.implementation.softmax_dtype == "input"
    if as_read and sizes.bytes < FP32 and not sizes.autocast:
        yield from _eager_as_read(a, out, sizes, plan)
    else:
        yield from _eager_in_full(a, out, sizes, plan)


def _eager_as_read(a: int, out: int, sizes: PytorchLegend, plan: PytorchPlan) -> Iterator[Row]:
    """Scores [b, a / t, s, s] in the narrow type throughout."""
    scores = sizes.b * a * sizes.s * (sizes.s + sizes.prefix) * sizes.c * sizes.bytes
    yield saved("softmax [b, a / t, s, s]", scores)
    if plan.step.attention_dropout:
        yield saved("dropout mask and dropped scores", scores // sizes.bytes + scores)
    yield saved("output, transposed [n, a d_v / t]", out)
    yield forward("scores before the softmax", scores)
    yield backward("gradients of the scores", 2 * scores)


def _eager_in_full(a: int, out: int, sizes: PytorchLegend, plan: PytorchPlan) -> Iterator[Row]:
    """Scores [b, a / t, s, s]: a softmax in fp32, and its copy in the narrow type; with dropout
    the mask (1 byte) and the dropped scores stand in the copy's place, in the residual stream's
    type until the product narrows them.

    The softmax reads bf16 scores from a copy in fp32, on CUDA as on a CPU, and its backward makes
    their gradient in fp32 first. CUDA's kernel alone reads and makes fp16 as it is. Source:
    transformers' eager_attention_forward; aten/src/ATen/native/SoftMax.cpp (softmax,
    half_to_float) and Dropout.cpp.
    """
    scores = sizes.b * a * sizes.s * (sizes.s + sizes.prefix) * sizes.c
    width, wide = sizes.bytes, max(sizes.bytes, sizes.residual_bytes)
    drops, narrows = plan.step.attention_dropout, width < FP32
    in_place = narrows and plan.step.half
    narrowed = width if narrows else 0
    kept = FP32 + (1 + width if drops else narrowed)
    highest = [2 * width, width + FP32 * (2 if narrows and not in_place else 1)]
    highest += [width + FP32 + narrowed]
    back = [2 * FP32 + (width if in_place else FP32), 2 * FP32 + narrowed]
    if drops:
        highest += [FP32 + 1 + wide + narrowed]
        back += [FP32 + 1 + 2 * wide]
    yield saved("softmax [b, a / t, s, s] fp32", FP32 * scores)
    if drops:
        yield saved("dropout mask and dropped scores", (1 + width) * scores)
    else:
        yield saved("softmax, narrowed", narrowed * scores)
    if plan.model.traits.attention_softcap:
        yield saved("capped scores", width * scores)
    yield saved("output, transposed [n, a d_v / t]", out)
    yield forward("scores, and in fp32", (max(highest) - kept) * scores)
    yield backward("gradients of the scores", (max(back) - kept) * scores)
