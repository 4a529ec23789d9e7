"""How many elements adapters of low rank have."""

from collections.abc import Iterable

from trainfit.estimator.legend import PytorchLegend
from trainfit.estimator.segment import Sums


def adapters_of(operations: Iterable[Sums], sizes: PytorchLegend) -> int:
    """Adapters of a stretch have r elements for each row and each column of a matrix, and one more
    for each row where they learn its length.
    """
    if sizes.adapters is None:
        return 0
    adapted = [each for each in operations if each.outputs and sizes.adapts(each.name)]
    lengths = sizes.adapters.decomposed * sum([each.outputs for each in adapted])
    return sizes.adapters.rank * sum([each.outputs + each.inputs for each in adapted]) + lengths
