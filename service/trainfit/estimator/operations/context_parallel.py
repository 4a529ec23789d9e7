"""Attention over context-parallel ranks: what is on its way between them, moment by moment.

An all-to-all brings whole sequences of some of the heads, and takes them back: while one tensor is
exchanged the next is laid out for it; what arrived is put in order on a stream of its own. Round a
ring keys and values come rank by rank, and an all-gather brings those of all ranks; every other
step of the kernel runs on that stream. Source: TransformerEngine's
pytorch/attention/dot_product_attention/context_parallel.py (flash_attn_a2a_communicate,
AttnFuncWithCPAndKVP2P, AttnFuncWithCPAndKVAllGather), for causal attention on the last rank, whose
steps read most.
"""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.estimator.ledger import Tensors
from trainfit.estimator.tensors import Tensor

STREAM = "context parallel"


class Exchange(NamedTuple):
    """The moments of an exchange, each with what it has of its own, and what it makes."""

    moments: tuple[Tensors, ...]
    made: Tensors


def on_stream(tensor: Tensor) -> Tensor:
    """A tensor like this, as it is made on that stream."""
    shape, width, dropped_by = tensor.shape, tensor.width, tensor.dropped_by
    return Tensor(tensor.name, shape, width, dropped_by, stream=STREAM)


def before_attention(*inputs: Tensor) -> Exchange:
    """Each is laid out, received, and put in order in two copies, of which the last stays."""
    return _exchange(inputs, [on_stream(each) for each in inputs], before=True)


def behind_attention(*inputs: Tensor, into: Sequence[Tensor] = ()) -> Exchange:
    """Each is put in order in two copies, of which the last is sent, received, and laid out."""
    return _exchange(inputs, into or [on_stream(each) for each in inputs], before=False)


def _exchange(inputs: Sequence[Tensor], made: Sequence[Tensor], *, before: bool) -> Exchange:
    received = [_copy("received", each) for each in inputs]
    sent = [_copy("to be sent", each) for each in inputs]
    moments: list[Tensors] = []
    alive: list[Tensor] = []

    def come(tensor: Tensor, *gone: Tensor) -> None:
        alive.append(tensor)
        moments.append(tuple(alive))
        for each in gone:
            alive.remove(each)

    def prepare(index: int) -> None:
        if index < len(inputs):
            ordered = () if before else (_copy("in order", inputs[index]),)
            for each in ordered:
                come(each)
            come(sent[index], *ordered)

    for index in range(len(inputs) + 2):
        if 0 < index <= len(inputs):
            come(received[index - 1])
        if not before:
            prepare(index)
        if index > 1:
            ordered = (on_stream(_copy("in order", inputs[index - 2])),) if before else ()
            for each in ordered:
                come(each)
            come(made[index - 2], *ordered, received[index - 2])
        if before:
            prepare(index)
    return Exchange(tuple(moments), tuple(made))


def _copy(what: str, of: Tensor) -> Tensor:
    return Tensor(f"{of.name}, {what}", of.shape, of.width, ())


class Steps(NamedTuple):
    """The moments of attention in several steps, each with what it has of its own: forward behind
    `locals` of it, backward from the gradient of its output. It is `kept` in the place of keys and
    values, and `gradients` are those of q, k and v.
    """

    forward: tuple[Tensors, ...]
    backward: tuple[Tensors, ...]
    kept: Tensors
    gradients: Tensors


def around_ring(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, ranks: int
) -> Steps:
    """Keys and values of every rank have a buffer, of which the last is kept. Outputs of all steps
    are joined at the end. Backward has two pairs of keys and values with their gradients, of which
    one is received while the other is sent; the last has the gradients.
    """
    n, keys_and_values = k.shape[0], k.shape[1] * (k.shape[2] + v.shape[2])
    streams = [STREAM if index % 2 else 0 for index in range(ranks)]
    buffers = [
        Tensor("keys and values of a rank", (n, keys_and_values), k.width, (), stream=stream)
        for stream in (0, *streams[: ranks - 2])
    ]
    name = "keys and values of the next rank"
    kept = Tensor(name, (n, keys_and_values), k.width, k.dropped_by, stream=streams[ranks - 2])
    outputs = [
        Tensor("output of a step", out.shape, out.width, (), stream=each) for each in streams
    ]
    sums = [
        Tensor("logsumexp of a step", logsumexp.shape, logsumexp.width, (), stream=each)
        for each in streams
    ]
    alive: Tensors = ()
    forward = [alive := (*alive, buffers[0])]
    for index, received in enumerate([*buffers[1:], kept, None]):
        if received is not None:
            forward.append(alive := (*alive, received))
        forward.append(alive := (*alive, outputs[index], sums[index]))
        if index == 1:
            forward.append(alive := (*alive, logsumexp))
    forward.append((*alive, out))
    of_q, step = (
        Tensor(name, q.shape, q.width, ()) for name in ("gradient of q", "that of a step")
    )
    name = "keys and values of a rank with gradients"
    pairs = [Tensor(name, (2, n, keys_and_values), k.width, ()) for _ in range(2)]
    of_step = (step, *[Tensor("gradient in a step", each.shape, k.width, ()) for each in (k, v)])
    last = pairs[ranks % 2]
    backward = ((of_q,), (of_q, pairs[0]), (of_q, *pairs), (of_q, *pairs, *of_step), (of_q, last))
    beside = Tensor("gradient of v, beside that of k", (0,), v.width, ())
    return Steps(tuple(forward), backward, (kept,), (of_q, last, beside))


def of_all_ranks(q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, c: int) -> Steps:
    """Keys and values of all ranks are put in order in a copy of each. The kernel runs for either
    half of the queries, and joins its outputs; backward gathers again, adds up gradients for all
    ranks, puts them in order in a copy of each, and reduces and scatters them.
    """

    def gathered(what: str, *inputs: Tensor) -> list[Tensor]:
        return [Tensor(what, (c, *each.shape), each.width, ()) for each in inputs]

    def of_half(half: int) -> list[Tensor]:
        keys = (c + half) * k.shape[0] // 2
        stream = STREAM if half else 0
        shapes = [(q.shape[0] // 2, *q.shape[1:]), (keys, *k.shape[1:]), (keys, *v.shape[1:])]
        name = "gradient of a half"
        return [Tensor(name, shape, k.width, (), stream=stream) for shape in shapes]

    def in_order(k: Tensor, v: Tensor, *beside: Tensor) -> tuple[list[Tensors], Tensors]:
        ordered = gathered_k, gathered_v = tuple(
            [Tensor(f"{each.name}, in order", each.shape, each.width, ()) for each in (k, v)]
        )
        moments = (k, v, gathered_k), (v, gathered_k, gathered_v)
        return [(*beside, *moment) for moment in moments], ordered

    shape = out.shape[0] // 2, *out.shape[1:]
    halves = [Tensor("output of a half", shape, out.width, (), stream=each) for each in (0, STREAM)]
    k_all, v_all = gathered("of all ranks", k, v)
    moments, ordered = in_order(k_all, v_all)
    forward = [
        *((k_all,), (k_all, v_all), *moments, (*ordered, out)),
        (*ordered, out, halves[0], logsumexp),
        (*ordered, out, *halves, logsumexp),
    ]
    of_q = Tensor("gradient of q", q.shape, q.width, ())
    sums = gathered("gradient for all ranks", k, v)
    k_all, v_all = gathered("of all ranks", k, v)
    own = (of_q, *sums)
    moments, ordered = in_order(k_all, v_all, *own)
    steps = [*of_half(0)], [*of_half(0), *of_half(1)]
    steps[1][:3] = steps[0]
    every = (of_q, *ordered, *steps[1])
    sorting, sorted_sums = in_order(sums[0], sums[1], *every)
    of_k, of_v = (Tensor("gradient, reduced", each.shape, each.width, ()) for each in (k, v))
    backward = [
        *(own, (*own, k_all), (*own, k_all, v_all), *moments),
        *[(*own, *ordered, *step) for step in steps],
        *sorting,
        (*every, *sorted_sums, of_k),
        (*every, *sorted_sums[1:], of_k, of_v),
        (of_q, of_k, of_v),
    ]
    return Steps(tuple(forward), tuple(backward), (), (of_q, of_k, of_v))
