"""A program: a block's operations as they run, written down with what each keeps and borrows.

As in PyTorch, a storage that several operations save is saved once, and an output that nobody
saves is alive while its operation runs.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple

from trainfit.estimator.demands import Collective, Demand
from trainfit.estimator.ledger import (
    BlockOperation,
    Group,
    Lifetime,
    OperationKind,
    OperationPeak,
    Row,
    Tensors,
)
from trainfit.estimator.legend import Legend
from trainfit.estimator.tensors import Role, Size, Tensor

SAVED, HELD = Lifetime.SAVED, Lifetime.HELD
FORWARD, BACKWARD = Lifetime.FORWARD, Lifetime.BACKWARD
GRADIENT = Lifetime.GRADIENT
INPUT, WEIGHT = Role.FOR_INPUT_GRADIENT, Role.FOR_WEIGHT_GRADIENT


def highest(*moments: Tensors, saved: Tensors = ()) -> OperationPeak:
    """The highest of the moments within an operation, in their order, each given by all of its own
    tensors that are alive then. `saved` are those that the operation saves.
    """
    if len(moments) == 1 and not saved:
        return OperationPeak(moments[0])
    most = max(moments, key=lambda alive: sum([each.bytes for each in alive]))
    absent = sum([each.bytes for each in saved if each not in most])
    borrowed = tuple([each for each in most if each not in saved])
    return OperationPeak(borrowed, absent, moments, saved)


class RecordedOperation(NamedTuple):
    """How to `make` an operation of all its rows, those that are known, and those of its tensors
    whose fate is known when all operations have run.
    """

    make: Callable[[tuple[Row, ...]], BlockOperation]
    rows: list[Row]
    makes: Tensors
    holds: Tensors
    offers: Tensors


class Program:
    """Writes down what the operations of blocks do, in the order in which they are called."""

    def __init__(self, sizes: Legend) -> None:
        self.sizes = sizes
        self._written: list[RecordedOperation] = []
        self._ended: list[list[RecordedOperation]] = []
        self._saved: set[Tensor] = set()
        self._offered: set[Tensor] = set()
        self._modules: tuple[str, ...] = ()
        self._stream: Hashable = 0
        self._passed_back: dict[Tensor, Tensor] = {}
        self._waiting_forward: Tensors = ()
        self._waiting_backward: Tensors = ()

    def named(self, **sizes: int) -> Iterable[int]:
        """Sizes of a block, under the names that formulas give them."""
        if not isinstance(self.sizes.n, Size):
            return sizes.values()
        return [Size(value, name) for name, value in sizes.items()]

    def tensor(
        self,
        name: str,
        *shape: int,
        width: int | Fraction = 0,
        dropped_by: tuple[str, ...] = (),
        role: Role | None = None,
        storages: int = 1,
    ) -> Tensor:
        """A new storage, or as many of one size; its elements are those of an activation unless a
        width is given.
        """
        dropped_by = self._modules + dropped_by if dropped_by else self._modules
        width = width or self.sizes.bytes
        return Tensor(name, shape, width, dropped_by, role, None, storages, self._stream)

    def several(self, name: str, count: int, *shape: int, width: int | Fraction = 0) -> Tensor:
        """As many storages of one shape, which come and go together."""
        return self.tensor(name, count, *shape, width=width, storages=count)

    def part(self, of: Tensor, name: str, *shape: int) -> Tensor:
        """A part of what another tensor has: whoever saves it saves all of that."""
        return Tensor(name, shape, of.width, of.dropped_by, of=of)

    def gradient(self, of: Tensor) -> Tensor:
        """The gradient of a tensor: of its shape, as wide as an activation."""
        return Tensor(
            *(f"gradient of {of.name}", of.shape, self.sizes.bytes, self._modules),
            stream=self._stream,
            gradient_of=of,
        )

    def passed_back(self, of: Tensor, name: str) -> Tensor:
        """A gradient of which there is one: whoever makes it hands it to whoever reads it. `name`
        is what the first who asks calls it.
        """
        if of not in self._passed_back:
            self._passed_back[of] = self.tensor(name, *of.shape)
        return self._passed_back[of]

    def passes_back(self, of: Tensor, gradient: Tensor) -> None:
        """It is this one."""
        self._passed_back[of] = gradient

    def operation(
        self,
        name: str,
        *,
        makes: Tensors = (),
        saves: Iterable[Tensor] = (),
        for_input: Tensors = (),
        for_weight: Tensors = (),
        offers: Tensors = (),
        holds: Tensors = (),
        borrows: Tensors | OperationPeak = (),
        backward: Tensors | OperationPeak = (),
        leaves: Tensors = (),
        reads: Tensors = (),
        weight: tuple[int, int] | None = None,
        output: Tensor | None = None,
        kind: OperationKind | None = None,
        bias: bool = False,
        adapted: bool = False,
        demands: tuple[Demand, ...] = (),
        again: tuple[str, ...] = (),
    ) -> None:
        """One operation: what it `makes`, `saves` for its backward, `holds` until its block
        returns, and `borrows` while it runs; what its `backward` borrows, and the gradients that
        it `leaves`; the (out, in) shape of the `weight` that it multiplies with on one rank.

        What it saves `for_input` only the gradient of its input reads, `for_weight` that of its
        weight. What it `offers` it saves if anyone saves it. Its `output` is not counted where it
        is made. What it `reads` and does not save others have made. `adapted` are those that
        adapters are trained beside. `demands` are what it asks of arithmetic and links; recomputing
        a module of `again`, or one that it runs in, runs it again.
        """
        saved = self._saved
        saves = tuple(saves)
        rows: list[Row] = []
        for tensors, role in ((saves, None), (for_input, INPUT), (for_weight, WEIGHT)):
            for tensor in tensors:
                each = tensor.of or tensor
                if each not in saved and each.bytes:
                    saved.add(each)
                    if each not in self._offered:
                        rows.append(Row(each, SAVED, role or each.role))
        self._offered.update(offers)
        before = _highest(borrows).beside(*self._waiting_forward)
        behind = _highest(backward).beside(*self._waiting_backward)
        rows += [Row(each, FORWARD) for each in before.borrowed if each.bytes]
        rows += [Row(each, BACKWARD) for each in behind.borrowed if each.bytes]
        rows += [Row(each, GRADIENT) for each in leaves if each.bytes]
        reads = (*reads, *saves, *for_input, *for_weight)
        modules = self._modules

        def make(tensors: tuple[Row, ...]) -> BlockOperation:
            return BlockOperation(
                *(name, tensors, weight, modules, bias, kind, adapted, reads),
                *(before, behind, output, makes + holds, demands, modules + again),
            )

        self._written.append(RecordedOperation(make, rows, makes, holds, offers))

    def into_columns(self, inputs: int) -> tuple[Collective, ...]:
        """What ranks exchange for a matrix whose rows they share out: its input, where they share
        out the sequence, which backward gathers again; the gradient of its input.
        """
        sizes = self.sizes
        whole = sizes.bytes * sizes.n * inputs
        shares = sizes.n_gathered > 0
        return (Collective("tp", "gather", whole * shares, 2 * whole),) * (sizes.t > 1)

    def out_of_rows(self, features: int) -> tuple[Collective, ...]:
        """The exchanges for a matrix whose columns ranks share out: their products are added up,
        and where they share out the sequence its gradient is gathered.
        """
        sizes = self.sizes
        whole = sizes.bytes * sizes.n * features
        shares = sizes.n_gathered > 0
        return (Collective("tp", "gather", whole * (2 - shares), whole * shares),) * (sizes.t > 1)

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        """What runs within is a module that can be recomputed as a whole: what is made within is
        made again.
        """
        before = self._modules
        self._modules = (*before, name)
        yield
        self._modules = before

    @contextmanager
    def waiting(self, forward: Tensors, backward: Tensors) -> Iterator[None]:
        """While what is within runs in either direction, these tensors wait for what comes then."""
        before = self._waiting_forward, self._waiting_backward
        self._waiting_forward, self._waiting_backward = forward, backward
        yield
        self._waiting_forward, self._waiting_backward = before

    @contextmanager
    def beside(self, stream: Hashable) -> Iterator[None]:
        """What runs within does so on a stream of its own: what it makes is of use to no other."""
        before, self._stream = self._stream, stream
        yield
        self._stream = before

    def group(self) -> Group:
        """What was written since the last group: what it holds ends with it."""
        group = tuple([self._settled(each) for each in self._written])
        self._written.clear()
        return group

    def end_group(self) -> None:
        """Ends a group, which `groups` then gives."""
        self._ended.append(self._written)
        self._written = []

    def groups(self) -> tuple[Group, ...]:
        """All groups that were ended, each operation with what any later one saves of it."""
        return tuple([tuple(map(self._settled, group)) for group in self._ended])

    def saves(self, tensor: Tensor) -> bool:
        """Whether any operation so far does."""
        return tensor in self._saved

    def is_kept_elsewhere(self, tensor: Tensor) -> bool:
        """Whether an operation before saves it, or will if any does."""
        return tensor in self._saved or tensor in self._offered

    def _settled(self, recorded: RecordedOperation) -> BlockOperation:
        """The operation with those of its outputs that nobody saves."""
        make, rows, makes, holds, offers = recorded
        saved = self._saved
        rows += [Row(each, FORWARD) for each in makes if each not in saved]
        rows += [Row(each, HELD) for each in holds if each not in saved]
        rows += [Row(each, SAVED, each.role) for each in offers if each in saved]
        return make(tuple(rows))


def _highest(borrowed: Tensors | OperationPeak) -> OperationPeak:
    return borrowed if isinstance(borrowed, OperationPeak) else OperationPeak(borrowed)
