"""The nodes of a layer whose exchanges run beside another micro-batch's computation.

A layer with experts has four: what comes up to the rows that leave, their way to the experts, the
experts, and the way back; another has what comes before its last sublayer, and that. A node reads
what the one before it has handed on, which is there until the node is through, and its backward
holds the gradient that it was given as long. Sources:
megatron/core/models/gpt/fine_grained_callables.py (build_transformer_layer_callables),
megatron/core/models/common/utils.py (should_free_input), megatron/core/pipeline_parallel/utils.py
(ScheduleNode).
"""

from collections.abc import Sequence
from typing import NamedTuple

from trainfit.estimator.ledger import (
    BlockOperation,
    Group,
    Lifetime,
    OperationKind,
    OperationPeak,
    Row,
)
from trainfit.estimator.tensors import Tensor

FORWARD, BACKWARD, HELD = Lifetime.FORWARD, Lifetime.BACKWARD, Lifetime.HELD


class Node(NamedTuple):
    """Operations that run as one. What is `given` comes from the node before, what is `handed` goes
    to the next one; gradients of both come back the other way.
    """

    groups: tuple[Group, ...]
    given: Tensor | None = None
    handed: Tensor | None = None
    of_handed: Tensor | None = None
    of_given: Tensor | None = None

    @property
    def saved(self) -> frozenset[Tensor]:
        """What its operations save for backward."""
        rows = [row for group in self.groups for each in group for row in each.tensors]
        return frozenset([row.tensor for row in rows if row.lifetime is Lifetime.SAVED])


class Nodes(NamedTuple):
    """A layer; one without experts exchanges nothing."""

    first: Node
    experts: Node
    dispatch: Node | None = None
    combine: Node | None = None


def nodes_of(sublayers: Sequence[tuple[Group, ...]]) -> Nodes:
    """The nodes of a layer by the groups of its sublayers."""
    before = [group for groups in sublayers[:-1] for group in groups]
    last = sublayers[-1]
    flat = [(number, each) for number, group in enumerate(last) for each in group]
    away = [at for at, (_, each) in enumerate(flat) if each.kind is OperationKind.EXCHANGE]
    if not away:
        return Nodes(Node(tuple(before)), Node(last))
    out, back = away[0], away[-1]

    def groups(first: int, end: int) -> list[Group]:
        """The operations from one to another by their groups."""
        part = flat[first:end]
        numbers = sorted({number for number, _ in part})
        return [tuple([each for at, each in part if at == number]) for number in numbers]

    parts = [groups(*ends) for ends in ((0, out), (out, out + 1), (out + 1, back), (back, None))]
    return _joined([*before, *parts[0]], parts[1], parts[2], parts[3])


def _joined(
    first: list[Group], dispatch: list[Group], experts: list[Group], combine: list[Group]
) -> Nodes:
    """The four with what they hand to each other: it is counted where it is made, and by whoever
    has it from then on.
    """
    leaving, sent, returned = first[-1][-1], dispatch[-1][-1], experts[-1][-1]
    permuted = leaving.makes[-1] if leaving.kind is OperationKind.PERMUTATION else None
    arrived = sent.makes[-1]
    output = (returned.makes or returned.forward.timeline[-1])[-1]
    of_output = _gradient(combine[0][0], output) or _like(output)
    of_arrived = _gradient(experts[0][0], arrived) or experts[0][0].backward.timeline[-1][0]
    of_tokens = _like(permuted) if permuted is not None else _others(sent, arrived)[0]
    if permuted is not None:
        first = _with_last(first, _without_backward(leaving, _gradient(leaving, permuted)))
    sent = _making(
        _backward_makes(_without_backward(sent, _gradient(sent, arrived)), of_tokens), arrived
    )
    experts = _with_last(experts, _without_backward(returned, _gradient(returned, output)))
    back = _backward_makes(_without_forward(combine[0][0], output), of_output)
    return Nodes(
        Node(tuple(first), None, permuted, of_tokens),
        Node(tuple(experts), arrived, output, of_output, of_arrived),
        Node(((sent,),), permuted, arrived, of_arrived, of_tokens),
        Node(((back, *combine[0][1:]), *combine[1:]), output, None, None, of_output),
    )


def _with_last(groups: list[Group], operation: BlockOperation) -> list[Group]:
    return [*groups[:-1], (*groups[-1][:-1], operation)]


def _like(tensor: Tensor) -> Tensor:
    name = f"gradient of {tensor.name}"
    return Tensor(name, tensor.shape, tensor.width, (), gradient_of=tensor)


def _gradient(operation: BlockOperation, of: Tensor) -> Tensor | None:
    """The gradient of a tensor among those that an operation borrows backward."""
    rows = [row.tensor for row in operation.tensors if row.lifetime is BACKWARD]
    return next((each for each in rows if each.gradient_of is of), None)


def _others(operation: BlockOperation, than: Tensor) -> list[Tensor]:
    """What it borrows backward besides the gradient of a tensor."""
    own = _gradient(operation, than)
    rows = [row.tensor for row in operation.tensors if row.lifetime is BACKWARD]
    return [each for each in rows if each is not own]


def _making(operation: BlockOperation, tensor: Tensor) -> BlockOperation:
    """The operation that makes a tensor for others, whoever saves it."""
    rows = [row for row in operation.tensors if row.tensor is not tensor]
    return operation._replace(tensors=(*rows, Row(tensor, FORWARD)))


def _without_forward(operation: BlockOperation, tensor: Tensor) -> BlockOperation:
    rows = tuple([row for row in operation.tensors if row.tensor is not tensor])
    return operation._replace(tensors=rows, forward=_bare(operation.forward, tensor))


def _without_backward(operation: BlockOperation, tensor: Tensor | None) -> BlockOperation:
    if tensor is None:
        return operation
    rows = tuple([row for row in operation.tensors if row.tensor is not tensor])
    return operation._replace(tensors=rows, backward=_bare(operation.backward, tensor))


def _backward_makes(operation: BlockOperation, tensor: Tensor) -> BlockOperation:
    """The operation whose backward makes a gradient for others."""
    if any(row.tensor is tensor for row in operation.tensors):
        return operation
    row = Row(tensor, BACKWARD)
    behind = operation.backward.beside(tensor)
    return operation._replace(tensors=(*operation.tensors, row), backward=behind)


def _bare(moments: OperationPeak, of: Tensor) -> OperationPeak:
    """The moments within an operation without a tensor that is there all the time."""
    return moments._replace(
        borrowed=tuple([each for each in moments.borrowed if each is not of]),
        moments=tuple([tuple([e for e in each if e is not of]) for each in moments.moments]),
    )
