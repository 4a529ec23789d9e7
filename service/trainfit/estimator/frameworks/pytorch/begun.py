"""Where gradients begin in a model of which the first layers are frozen, or all but adapters: what
autograd does not see is not saved.
"""

from collections.abc import Callable
from typing import Literal

from trainfit.estimator.frameworks.pytorch.layers import Ran
from trainfit.estimator.ledger import Group, Lifetime, OperationKind, Row
from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.tensors import Role
from trainfit.specs.blocks import Layer

Begun = Literal["before", "within", "behind"]
"""Where a layer stands: before all that is trained, where gradients begin, or behind that."""


def seen(ran: Ran, layer: Layer, sizes: PytorchLegend, begun: Begun) -> tuple[Group, ...]:
    """The groups of a layer as autograd sees them where it stands."""
    if begun == "behind":
        return ran.groups
    if begun == "before":
        return tuple([without_saved(group) for group in ran.groups])
    return _beginning(ran, layer, sizes)


def _beginning(ran: Ran, layer: Layer, sizes: PytorchLegend) -> tuple[Group, ...]:
    """The first layer that is trained, before which no gradient flows. Nothing is saved for a
    gradient of the input, with adapters nothing before the first one of a block.
    """
    end, count = ran.counts[0], len(layer.sublayers[0].blocks)
    inputs, *blocks = ran.groups[:end]
    if sizes.adapters is None:
        return (_without_input_gradient(inputs), *ran.groups[1:])
    inside, behind = blocks[:count], blocks[count:]
    if not any(each.adapted for group in inside for each in group):
        behind = [without_saved(group) for group in behind]
    begun = [_from_first_adapter(group, sizes) for group in inside]
    return (without_saved(inputs), *begun, *behind, *ran.groups[end:])


def _from_first_adapter(group: Group, sizes: PytorchLegend) -> Group:
    """Trained keys and values join in attention."""
    joins = OperationKind.ATTENTION if sizes.prefix else None
    adapted = [each.adapted or (joins is not None and each.kind is joins) for each in group]
    first = adapted.index(True) if True in adapted else len(group)
    return (*without_saved(group[:first]), *group[first:])


def without_saved(group: Group, *, but: Role | None = None) -> Group:
    """The operations as autograd sees them where no gradient flows, with what they keep for another
    reason.
    """

    def goes(row: Row) -> bool:
        return row.lifetime is Lifetime.SAVED and (but is None or row.role is not but)

    return _without(group, goes)


def _without_input_gradient(group: Group) -> Group:
    return _without(group, lambda row: row.role is Role.FOR_INPUT_GRADIENT)


def _without(group: Group, dropped: Callable[[Row], bool]) -> Group:
    """The operations without some of their tensors."""
    return tuple(
        [
            each._replace(tensors=tuple([row for row in each.tensors if not dropped(row)]))
            for each in group
        ]
    )
