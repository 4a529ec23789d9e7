"""Backward in two, as zero-bubble schedules run it: first for the input of a chunk, later for its
weights.

The first half lets go of nothing that forward saved: autograd keeps the graph for the second, and
with it, for every weight, the gradient of what was made with it. Where a layer is checkpointed,
each weight of the second half runs it forward again, and what that makes and the weight does not
read waits for the end of the graph. Source: torch/distributed/pipelining/_backward.py
(stage_backward_input, stage_backward_weight), torch/utils/checkpoint.py (_checkpoint_hook).
"""

from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.ledger import BlockOperation, Group, Lifetime, OperationKind
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Moment, Segment, Sums, add_up, walk
from trainfit.estimator.tensors import Role


class WeightGradient(NamedTuple):
    """Bytes around the gradient of one operation's weights: `gradient` is it, `captured` that of
    the operation's output, `read` what forward saved for nothing else.
    """

    operation: str
    gradient: int
    captured: int
    read: int


class BackwardHalves(NamedTuple):
    """A segment's backward in two.

    `inputs` is the highest moment of the first half besides what forward saved. The second runs the
    weights in the order of the module's parameters: its products, then its norms. In a checkpointed
    segment each of them makes `remade` bytes again, and has `again` at most meanwhile.
    """

    inputs: Moment
    products: tuple[WeightGradient, ...]
    norms: tuple[WeightGradient, ...]
    remade: int
    again: int

    @property
    def weights(self) -> tuple[WeightGradient, ...]:
        return self.products + self.norms

    @property
    def captured(self) -> int:
        return sum(weight.captured for weight in self.weights)


class SplitLedger:
    """The segments of a ledger whose backward is run in two, each kind estimated once."""

    def __init__(self, ledger: PytorchLedger) -> None:
        self._ledger = ledger
        self._known: dict[tuple[str, int | None, bool], BackwardHalves] = {}

    def segments(self, content: Content) -> list[BackwardHalves]:
        """A chunk in forward order. The embedding's backward is never in two."""
        return [
            self._halves(placed)
            for placed in self._ledger.segments(content)
            if placed.segment.name != "embedding"
        ]

    @property
    def loss(self) -> int:
        """Bytes that the loss of one micro-batch keeps."""
        (operations,) = self._ledger.head()
        (sums,) = add_up((operations,), frozenset())
        return sum([each.saved for each in sums if each.kind is OperationKind.LOSS])

    def _halves(self, placed: PlacedSegment) -> BackwardHalves:
        name, kind = placed.segment.name, placed.kind
        again = False
        if placed.layer is not None and kind is not None:
            again = self._ledger.is_recomputed(placed.layer, kind)
        key = name, kind, again
        if key not in self._known:
            self._known[key] = self._new_halves(name, kind, placed.segment, recomputed=again)
        return self._known[key]

    def _new_halves(
        self, name: str, kind: int | None, segment: Segment, *, recomputed: bool
    ) -> BackwardHalves:
        ledger = self._ledger
        if kind is not None:
            plain = ledger.layer_segments[kind]
            return halves(ledger.kinds[kind], plain, ledger.sizes.act, recomputed=recomputed)
        groups = ledger.head() if name == "head" else ledger.final_norm()
        return halves(groups, segment, 0, recomputed=False)


def halves(
    groups: tuple[Group, ...], plain: Segment, gradient: int, *, recomputed: bool
) -> BackwardHalves:
    """The halves of a segment. `plain` is it without checkpointing, `gradient` the bytes of the one
    that flows along the residual stream.
    """
    operations = [operation for group in groups for operation in group]
    table = [_for_inputs(operation, recomputed=recomputed) for operation in operations]
    inputs = walk(plain.name, [table], gradient).backward
    products, norms = _weights(operations)
    if not recomputed:
        return BackwardHalves(inputs, products, norms, 0, 0)
    again = plain.forward._replace(kept=0, borrowed=plain.forward.total + gradient)
    inputs = max(inputs, again, key=lambda moment: moment.total)
    return BackwardHalves(inputs, products, norms, plain.saved, plain.forward.total)


def captured(operation: BlockOperation) -> int:
    """Bytes of the gradient of what an operation makes, which its weights' gradient needs."""
    return operation.output_bytes if _gradient(operation) else 0


def _gradient(operation: BlockOperation) -> int:
    return sum(each.bytes for each in operation.tensors if each.lifetime is Lifetime.GRADIENT)


def _for_inputs(operation: BlockOperation, *, recomputed: bool) -> Sums:
    """What is captured stays; only what was made again is let go of, while a norm runs too."""
    ((sums,),) = add_up(((operation,),), frozenset())
    made = captured(operation)
    backward = max(0, sums.backward - made)
    if recomputed:
        return sums._replace(gradient=made, backward=backward)
    return sums._replace(
        saved=0, gradient=made, backward=backward + _bytes(operation, Role.NORMALISED)
    )


def _weights(
    operations: list[BlockOperation],
) -> tuple[tuple[WeightGradient, ...], tuple[WeightGradient, ...]]:
    """The weights of products and those of norms. What a norm makes is read by the products up to
    the next one that have no input of their own: the last of them lets go of it.
    """
    products: list[WeightGradient] = []
    norms: list[WeightGradient] = []
    normalised = 0
    for operation in operations:
        weight = WeightGradient(
            operation.name,
            _gradient(operation),
            captured(operation),
            _bytes(operation, Role.FOR_WEIGHT_GRADIENT, Role.NORMALISED),
        )
        if operation.kind is OperationKind.NORM:
            _let_go(products, normalised)
            normalised = _bytes(operation, Role.NORM_OUTPUT)
            norms.append(weight)
        elif weight.gradient:
            products.append(weight)
    _let_go(products, normalised)
    return tuple(products), tuple([each for each in norms if each.gradient])


def _let_go(products: list[WeightGradient], normalised: int) -> None:
    for index in reversed(range(len(products))):
        if not products[index].read:
            products[index] = products[index]._replace(read=normalised)
            return


def _bytes(operation: BlockOperation, *roles: Role) -> int:
    return sum([each.bytes for each in operation.tensors if each.role in roles])
