"""The symbols of formulas with one job's numbers: those that all tables share, and a block's."""

from collections.abc import Container, Iterable
from itertools import chain

from trainfit.estimator.ledger import Group
from trainfit.estimator.legend import Legend
from trainfit.estimator.tensors import Size


def shared_symbols(sizes: Legend) -> dict[str, int]:
    """What every table of operations may name."""
    return {
        "b": sizes.b,
        "s": sizes.s,
        "n": sizes.n,
        "n'": sizes.n_shard,
        "h": sizes.h,
        "V": sizes.V,
        "t": sizes.t,
        "c": sizes.c,
        "e": sizes.e,
        "x": sizes.x,
        "streams": sizes.streams,
    }


def symbols_of(groups: Iterable[Group], shared: Container[str]) -> dict[str, int]:
    """What the shapes of these operations name besides the shared symbols."""
    named: dict[str, int] = {}
    for operation in chain.from_iterable(groups):
        for row in operation.tensors:
            for size in row.tensor.shape:
                if isinstance(size, Size):
                    named |= size.symbols
    return {name: value for name, value in named.items() if name not in shared}
