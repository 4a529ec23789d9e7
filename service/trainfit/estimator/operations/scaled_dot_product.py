"""Softmax attention in PyTorch: a fused kernel, the math that stands in for one, and eager modules.

Symbols: estimator.legend. q is [n, a / t, d], k [keys, g / t, d], v [keys, g / t, d_v]; keys are
those of the tokens and of a prefix before each sample. What each returns is [n, a d_v / t].
Sources: aten/src/ATen/native/transformers (attention.cpp, cuda/flash_api.cpp, cuda/attention.cu,
cuda/sdp_utils.cpp), torch/distributed/tensor/experimental/_context_parallel (_attention.py),
transformers' eager_attention_forward, aten/src/ATen/native (SoftMax.cpp, Dropout.cpp).
"""

from trainfit.estimator.demands import AttentionDemand, Collective, Demand
from trainfit.estimator.ledger import OperationKind, OperationPeak, Tensors
from trainfit.estimator.operations import rotary
from trainfit.estimator.operations.pytorch import Modules
from trainfit.estimator.operations.widths import BYTE, FP32
from trainfit.estimator.program import highest
from trainfit.estimator.tensors import Role, Tensor

NAME = "core_attention"


def fused(
    step: Modules,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rotated: bool = False,
    turned: rotary.Projected | None = None,
    masked: bool = False,
    transposed: bool = False,
    window: int | None = None,
) -> Tensor:
    """One kernel, which keeps its output and the logsumexp of every row. A mask is kept by each
    layer. Where heads lie before tokens in memory, the output is `transposed` for who reads it.
    What is `turned` before are queries and keys as they were projected, if that is known.
    """
    n, heads, d = q.shape
    keys, read, d_v = v.shape
    out = step.tensor("output", n, heads * d_v, role=Role.KERNEL_OUTPUT)
    logsumexp = step.tensor("logsumexp", heads, n, width=FP32, role=Role.KERNEL_OUTPUT)
    saves = [q, k, v, out, logsumexp]
    if masked:
        b, s = step.sizes.b, step.sizes.s
        saves.append(step.tensor("mask of the window", b, 1, s, s + step.sizes.prefix))
    copy = step.tensor("output, tokens before heads", *out.shape)
    gradients = step.gradient(q), step.gradient(k), step.gradient(v)
    backward = [
        step.passed_back(copy if transposed else out, "gradient of output"),
        *gradients,
        step.tensor("gradient of q in fp32", n, heads, d, width=FP32),
        step.tensor("sums of output and its gradient", heads, n, width=FP32),
    ]
    if 0 < read < heads:
        name = "gradients of repeated keys and values"
        backward.append(step.tensor(name, keys, heads, d + d_v))
    passed, added = _exchanged(step, q, k, v)
    forward, behind = highest((*_rotation(step, q, rotated=rotated),)), highest(tuple(backward))
    if turned is not None:
        kept = tuple(saves)
        forward = highest(*rotary.turned(step, turned, q, k, v), kept, saved=kept)
        moments = rotary.turned_back(step, turned, gradients)
        behind = highest((*kept, *backward), *moments, saved=kept)
    step.operation(
        NAME,
        saves=saves,
        offers=(copy,) if transposed else (),
        borrows=forward.beside(*passed),
        backward=behind.beside(*added),
        kind=OperationKind.ATTENTION,
        demands=_attends(step, q, k, v, window),
    )
    return copy if transposed else out


def math(
    step: Modules,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rotated: bool = False,
    window: int | None = None,
) -> Tensor:
    """Scores in fp32, made from queries, keys and values in fp32."""
    sizes, (n, heads, _), d_v = step.sizes, q.shape, v.shape[-1]
    scores = step.tensor("scores", sizes.b, heads, sizes.s, sizes.s * sizes.c, width=FP32)
    out = step.tensor("output, transposed", n, heads * d_v)
    passed, added = _exchanged(step, q, k, v)
    step.operation(
        NAME,
        saves=(q, k, v, step.tensor("softmax", *scores.shape, width=FP32), out),
        borrows=(scores, *_rotation(step, q, rotated=rotated), *passed),
        backward=(step.several("gradients of the scores", 2, *scores.shape, width=FP32), *added),
        kind=OperationKind.ATTENTION,
        demands=_attends(step, q, k, v, window, FP32),
    )
    return out


def eager(
    step: Modules,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rotated: bool = False,
    sinks: bool = False,
    window: int | None = None,
) -> Tensor:
    """Attention of single operations. Autocast makes every softmax in fp32."""
    sizes, (n, heads, _), d_v = step.sizes, q.shape, v.shape[-1]
    shape = (sizes.b, heads, sizes.s, (sizes.s + sizes.prefix) * sizes.c)
    as_read = step.by.softmax_dtype == "input" and sizes.bytes < FP32 and not sizes.autocast
    scores = _scores_as_read if as_read else _scores_in_full
    out = step.tensor("output, transposed", n, heads * d_v)
    passed, added = _exchanged(step, q, k, v)
    kept, forward, backward = scores(step, shape, sinks=sinks)
    step.operation(
        NAME,
        saves=(q, k, v, *kept, out),
        borrows=forward.beside(*_rotation(step, q, rotated=rotated), *passed),
        backward=backward.beside(*added),
        kind=OperationKind.ATTENTION,
        demands=_attends(step, q, k, v, window, FP32),
    )
    return out


def _attends(
    step: Modules, q: Tensor, k: Tensor, v: Tensor, window: int | None, score_bytes: int = 0
) -> tuple[Demand, ...]:
    """The kernel, and the keys and values that context-parallel ranks pass round for it."""
    sizes, (n, heads, d), d_v = step.sizes, q.shape, v.shape[-1]
    kernel = AttentionDemand(
        n, heads, d + d_v, (sizes.s + sizes.prefix) * sizes.c, window, score_bytes
    )
    if sizes.c == 1:
        return (kernel,)
    whole = sizes.c * (k.bytes + v.bytes)
    return kernel, Collective("cp", "ring", whole, 2 * whole)


Scores = tuple[Tensors, OperationPeak, OperationPeak]
"""What is kept of them, and borrowed forward and backward."""


def _scores_as_read(step: Modules, shape: tuple[int, ...], *, sinks: bool) -> Scores:
    """Scores [b, a / t, s, s] in the narrow type throughout. With a column of `sinks` they are
    copied, and the copy less its maxima is what the softmax reads (modeling_gpt_oss.py).
    """
    kept = [step.tensor("softmax", *shape)]
    if step.way.step.attention_dropout:
        kept.append(step.tensor("dropout mask", *shape, width=BYTE))
        kept.append(step.tensor("dropped scores", *shape))
    gradients = step.several("gradients of the scores", 2, *shape)
    scores = step.tensor("scores", *shape)
    forward = highest((scores,))
    if sinks:
        copy, shifted = _with_sinks(step, shape)
        saved = tuple(kept)
        forward = highest((scores, copy, shifted), (scores, shifted, *saved), saved=saved)
    return tuple(kept), forward, highest((gradients,))


def _with_sinks(step: Modules, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores with one column more, and those less their maxima."""
    return step.tensor("scores with sinks", *shape), step.tensor("those less maxima", *shape)


def _scores_in_full(step: Modules, shape: tuple[int, ...], *, sinks: bool) -> Scores:
    """Scores [b, a / t, s, s]: a softmax in fp32, and its copy in the narrow type; with dropout
    the mask and the dropped scores stand in the copy's place, in the residual stream's type until
    the product narrows them.

    The softmax reads bf16 scores from a copy in fp32, on CUDA as on a CPU, and its backward makes
    their gradient in fp32 first. CUDA's kernel alone reads and makes fp16 as it is (half_to_float).
    """
    sizes, drops = step.sizes, step.way.step.attention_dropout
    narrows = sizes.bytes < FP32
    as_it_is = narrows and step.way.step.half
    wide = max(sizes.bytes, sizes.residual_bytes)
    scores, narrowed, dropped = (
        step.tensor(name, *shape) for name in ("scores", "softmax, narrowed", "dropped scores")
    )
    in_fp32, softmax, gradient = (
        step.tensor(name, *shape, width=FP32)
        for name in ("scores in fp32", "softmax", "gradient of the softmax")
    )
    copy = (narrowed,) * narrows
    forward = [
        (scores, step.tensor("scores with their mask", *shape)),
        (scores, *(in_fp32,) * (narrows and not as_it_is), softmax),
        (scores, softmax, *copy),
    ]
    if sinks:
        combined, shifted = _with_sinks(step, shape)
        forward = [(*moment, shifted) for moment in forward[1:]]
        forward.append((scores, combined, shifted))
    of_scores = step.tensor(
        "gradient of the scores", *shape, width=sizes.bytes if as_it_is else FP32
    )
    backward = [
        (softmax, gradient, of_scores),
        (softmax, gradient, *(step.gradient(narrowed),) * narrows),
    ]
    kept: Tensors = (softmax, *copy)
    if drops:
        mask = step.tensor("dropout mask", *shape, width=BYTE)
        of_dropped = step.several("gradients before and behind the dropout", 2, *shape, width=wide)
        as_dropped = (
            step.tensor("dropped scores as wide", *shape, width=wide) if narrows else dropped
        )
        kept = softmax, mask, dropped
        forward.append((softmax, mask, as_dropped, *copy))
        backward.append((softmax, mask, of_dropped))
    saved = kept
    if step.way.traits.attention_softcap:
        kept += (step.tensor("capped scores", *shape),)
    return kept, highest(*forward, saved=saved), highest(*backward, saved=saved)


def _rotation(step: Modules, q: Tensor, *, rotated: bool) -> Tensors:
    """Queries and keys that positions have turned are new tensors."""
    return (step.several("products with cos and sin", 2, *q.shape),) if rotated else ()


def _exchanged(step: Modules, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensors, Tensors]:
    """What context-parallel ranks pass round: keys and values of all ranks, gathered at once, and
    in backward gradients in fp32, those of keys and values as they come and go besides.
    Source: _templated_ring_attention and its backward. Under Ulysses each has all tokens of some
    heads, as many elements, and one tensor at a time as it is sent and as it comes.
    Sources: verl's utils/ulysses.py (all_to_all_tensor), deepspeed/sequence/layer.py.
    """
    c = step.sizes.c
    if c == 1:
        return (), ()
    if step.way.step.ulysses:
        sent = step.several("queries, sent and received", 2, *q.shape)
        return (sent,), (sent,)
    (keys, heads, d), d_v = k.shape, v.shape[-1]
    whole = step.tensor("keys and values of all ranks", c, keys, heads, d + d_v)
    own = step.tensor("gradient of q, added up over ranks", *q.shape, width=FP32)
    name = "gradients of keys and values, added up over ranks"
    return (whole,), (whole, own, step.several(name, 3, keys, heads, d + d_v, width=FP32))
