"""Tensors on their way between context-parallel ranks by an all-to-all: whole sequences of some of
the heads for the kernel, and back.

While one is exchanged the next is laid out for it; what arrived is put in order on a stream of its
own. Source: TransformerEngine's pytorch/attention/dot_product_attention/context_parallel.py
(flash_attn_a2a_communicate).
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
    """The same, as it is made on that stream."""
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
