"""A program: a block's operations as they run, written down with what each keeps and borrows.

As in PyTorch, a storage that several operations save is saved once, and an output that nobody
saves is alive while its operation runs.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from trainfit.estimator.ledger import Group, Kind, Lifetime, Operation, Row
from trainfit.estimator.legend import Legend
from trainfit.estimator.tensors import Size, Tensor

SAVED, HELD = Lifetime.SAVED, Lifetime.HELD
FORWARD, BACKWARD = Lifetime.FORWARD, Lifetime.BACKWARD


class Program:
    """Writes down what the operations of blocks do, in the order in which they are called."""

    def __init__(self, sizes: Legend) -> None:
        self.sizes = sizes
        self._written: list[tuple[Operation, tuple[Tensor, ...], tuple[Tensor, ...]]] = []
        self._saved: set[Tensor] = set()
        self._modules: tuple[str, ...] = ()

    def named(self, **sizes: int) -> Iterable[int]:
        """Sizes of a block, under the names that formulas give them."""
        if type(self.sizes.n) is int:
            return sizes.values()
        return [Size(value, name) for name, value in sizes.items()]

    def tensor(
        self, name: str, *shape: int, width: int | Fraction = 0, dropped_by: tuple[str, ...] = ()
    ) -> Tensor:
        """A new storage; its elements are those of an activation unless a width is given."""
        return Tensor(name, shape, width or self.sizes.bytes, self._modules + dropped_by)

    def gradient(self, of: Tensor) -> Tensor:
        """The gradient of a tensor: of its shape, as wide as an activation."""
        return self.tensor(f"gradient of {of.name}", *of.shape)

    def operation(
        self,
        name: str,
        *,
        makes: tuple[Tensor, ...] = (),
        saves: Iterable[Tensor] = (),
        holds: tuple[Tensor, ...] = (),
        borrows: tuple[Tensor, ...] = (),
        backward: tuple[Tensor, ...] = (),
        weight: tuple[int, int] | None = None,
        kind: Kind | None = None,
    ) -> None:
        """One operation: what it `makes`, `saves` for its backward, `holds` until its block
        returns, and `borrows` while it runs; what its `backward` borrows; the (out, in) shape of
        the `weight` that it multiplies with on one rank.
        """
        saved = self._saved
        rows = []
        for each in saves:
            if each.bytes and each not in saved:
                saved.add(each)
                rows.append(Row(each.name, each.bytes, SAVED, each.dropped_by, each))
        rows += [Row(each.name, each.bytes, FORWARD, (), each) for each in borrows if each.bytes]
        rows += [Row(each.name, each.bytes, BACKWARD, (), each) for each in backward if each.bytes]
        ran = Operation(name, tuple(rows), weight, self._modules, kind=kind)
        self._written.append((ran, makes, holds))

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        """What runs within is a module that can be recomputed as a whole: what is made within is
        made again.
        """
        before = self._modules
        self._modules = (*before, name)
        yield
        self._modules = before

    def group(self) -> Group:
        """What was written since the last group: what it holds ends with it."""
        group = tuple([self._with_outputs(*each) for each in self._written])
        self._written.clear()
        return group

    def _with_outputs(
        self, operation: Operation, makes: tuple[Tensor, ...], holds: tuple[Tensor, ...]
    ) -> Operation:
        """The operation with those of its outputs that nobody saves."""
        saved = self._saved
        rows = [Row(t.name, t.bytes, FORWARD, (), t) for t in makes if t not in saved]
        rows += [Row(t.name, t.bytes, HELD, (), t) for t in holds if t not in saved]
        return operation._replace(tensors=(*operation.tensors, *rows)) if rows else operation
