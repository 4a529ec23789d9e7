"""A stretch of a model estimated on its own: what it saves and its highest moments.

The ledger is walked as a step runs it: forward, adding what each operation saves; backward, from
the end, giving it back. The highest point of each walk is kept with the operation it falls on.
"""

from typing import Literal, NamedTuple, Self

from trainfit.estimator.ledger import BlockOperation, Group, Lifetime, OperationKind
from trainfit.resolve.megatron.plan import OFFLOADED

SAVED, FORWARD, BACKWARD = Lifetime.SAVED, Lifetime.FORWARD, Lifetime.BACKWARD
GRADIENT = Lifetime.GRADIENT


class Moment(NamedTuple):
    """Bytes alive at one operation, above those alive before the stretch."""

    operation: str
    kept: int
    """Saved or held."""
    borrowed: int
    """Alive within this operation only."""
    kind: OperationKind | None = None

    @property
    def total(self) -> int:
        return self.kept + self.borrowed


SegmentName = Literal["embedding", "dense", "moe", "mtp", "final_norm", "head"]


class Segment(NamedTuple):
    """A stretch of a model: a layer, a recomputed group of layers, an embedding, a head."""

    name: SegmentName
    saved: int
    forward: Moment
    backward: Moment
    gradients: int = 0
    """Weight gradients that its backward leaves behind."""
    cached: int = 0
    """Held until the forward of the whole model returns."""
    narrowed: int = 0
    """Weights that autocast has narrowed, held until it ends."""
    apart: tuple[Moment, ...] = ()
    """Its highest forward until autocast ends, and behind that, where it ends on the way."""
    received: Moment | None = None
    """The highest backward where the gradient that came is held until all of it is through, unless
    it is the same.
    """

    def held(self) -> Self:
        """The same where whoever runs it backward holds the gradient that came meanwhile."""
        return self if self.received is None else self._replace(backward=self.received)


class Sums(NamedTuple):
    """One operation's bytes by lifetime under a recompute policy."""

    name: str
    saved: int
    held: int
    forward: int
    backward: int
    gradient: int
    dropped: int
    dropped_by: str
    kind: OperationKind | None
    outputs: int
    inputs: int
    """The (out, in) shape of the weight that it multiplies with on one rank; 0 where none."""


Table = list[list[Sums]]
"""The operations of a stretch by their groups."""


def add_up(groups: tuple[Group, ...], modules: frozenset[str]) -> Table:
    """Every operation's bytes by lifetime, where `modules` are recomputed."""
    return [[_sums(operation, modules) for operation in group] for group in groups]


def walk(
    name: SegmentName,
    table: Table,
    gradient: int,
    before_last: int = 0,
    within: int | None = None,
) -> Segment:
    """What a stretch saves and its highest moments, forward and backward. `gradient` is the bytes
    of the one that flows along the residual stream while the stretch runs backward. So many groups
    stand `before_last` of those that add to it: while they run it is another one than came. So many
    operations are `within` autocast, where it ends on the way.
    """
    flat = [sums for group in table for sums in group]
    saved = sum([sums.saved for sums in flat])
    made = sum([sums.gradient for sums in flat])
    highest = _backward(flat, saved, gradient)
    received = None
    if before_last:
        beside = sum(map(len, table[:before_last]))
        received = _backward(flat, saved, gradient, beside)
    whole, apart = _forward(table), tuple[Moment, ...]()
    if within is not None:
        apart = _forward(table, end=within), _forward(table, start=within)
    return Segment(name, saved, whole, highest, made, apart=apart, received=received)


def _sums(operation: BlockOperation, modules: frozenset[str]) -> Sums:
    saved = held = forward = backward = gradient = dropped = 0
    dropper = _first_of(operation.modules, modules) if modules else ""
    for tensor, lifetime, _ in operation.tensors:
        size = tensor.bytes
        if lifetime is SAVED:
            by = _first_of(tensor.dropped_by, modules) if modules and tensor.dropped_by else ""
            if by:
                dropped, dropper = dropped + size, dropper or by
            else:
                saved += size
        elif lifetime is BACKWARD:
            backward += size
        elif lifetime is FORWARD:
            forward += size
        elif lifetime is GRADIENT:
            gradient += size
        else:
            held += size
    forward, backward = forward - operation.forward.absent, backward - operation.backward.absent
    bytes_ = (saved, held, forward, backward, gradient, dropped)
    return Sums(operation.name, *bytes_, dropper, operation.kind, *(operation.gemm or (0, 0)))


def _first_of(names: tuple[str, ...], modules: frozenset[str]) -> str:
    for name in names:
        if name in modules:
            return name
    return ""


def _forward(table: Table, start: int = 0, end: int | None = None) -> Moment:
    """The highest of all operations, or of those from the `start`-th to before the `end`-th."""
    highest, best = -1, Moment("", 0, 0)
    live = index = 0
    for group in table:
        held = 0
        for sums in group:
            live += sums.saved
            held += sums.held
            borrowed = sums.forward + sums.dropped
            looked_at = index >= start and (end is None or index < end)
            if looked_at and live + held + borrowed > highest:
                highest = live + held + borrowed
                best = Moment(sums.name, live + held, borrowed, sums.kind)
            index += 1
    return best


def _backward(flat: list[Sums], saved: int, gradient: int, beside: int = 0) -> Moment:
    """What a module dropped is made again when the walk comes to the module's last operation; a
    rerun holds and borrows what the module's forward did. What was offloaded is fetched a layer
    ahead: all of it is there from the start, and where the walk comes to a module, the same of the
    next layer comes with it. The first so many operations run `beside` another gradient than the
    one that flows.

    Source of the lead: megatron-core's fine_grained_activation_offload.py, whose first groups to
    run backward never leave (_offload_margin, should_bulk_offload), while each group that ends
    fetches the next one that did.
    """
    highest, best = -1, Moment("", 0, 0)
    restored = _offloaded(flat)
    live, coming = saved, dict(restored)
    for index in reversed(range(len(flat))):
        sums = flat[index]
        if index + 1 == beside:
            gradient *= 2
        again = remade = 0
        if sums.dropped_by in coming:
            live += coming.pop(sums.dropped_by)
        elif sums.dropped_by and sums.dropped_by not in restored:
            module = [each for each in flat if each.dropped_by == sums.dropped_by]
            restored[sums.dropped_by] = sum(each.dropped for each in module)
            again = _rerun_peak(module)
        if restored:
            remade = sum(restored.values())
        live += sums.gradient
        borrowed = gradient + max(remade + sums.backward, again)
        if live + borrowed > highest:
            highest = live + borrowed
            best = Moment(sums.name, live, borrowed, sums.kind)
        live -= sums.saved
        if sums.dropped:
            restored[sums.dropped_by] -= sums.dropped
    return best


def _offloaded(flat: list[Sums]) -> dict[str, int]:
    """Bytes in host memory by the module that offloads them."""
    waiting: dict[str, int] = {}
    for sums in flat:
        if sums.dropped_by.startswith(OFFLOADED):
            waiting[sums.dropped_by] = waiting.get(sums.dropped_by, 0) + sums.dropped
    return waiting


def _rerun_peak(module: list[Sums]) -> int:
    """What a module's forward makes, holds and borrows at most while it is run again."""
    live = best = 0
    for sums in module:
        live += sums.dropped + sums.held
        best = max(best, live + sums.forward)
    return best


def fetched(segment: Segment, *, ahead: bool) -> Segment:
    """A stretch that keeps nothing on the GPU: what it saves goes to the host behind its forward,
    and is fetched for its backward, while that of the one before it is fetched `ahead`. Source:
    TransformerEngine's cpu_offload.py (AsyncDoubleBufferGroupOffloadHandler).
    """
    backward = segment.backward
    borrowed = backward.total + segment.saved * ahead
    return segment._replace(saved=0, backward=backward._replace(kept=0, borrowed=borrowed))


def rerun(
    name: SegmentName,
    parts: list[Segment],
    kept: int,
    gradient: int,
    *,
    cached: int = 0,
    read: int = 0,
    output: int = 0,
) -> Segment:
    """A stretch under full recompute: its input is kept, the rest made again in backward. `cached`
    bytes of what is kept stand in for what would be made again, `read` ones are what its first part
    reads and saves. Its `output` is there while it runs backward.

    In forward without gradients a part lets go of what it made before the next one starts. In
    backward the whole stretch runs forward again before it runs backward; the parts before the last
    do so beside the `gradient` that it was given.
    """
    forward = max((part.forward for part in parts), key=lambda moment: moment.total)
    gradients = sum(part.gradients for part in parts)
    best = Moment("", 0, 0)
    above = 0
    for number, part in enumerate(parts, 1):
        held = output + gradient * (number < len(parts))
        for moment, extra in ((part.forward, gradient), (part.backward, held)):
            borrowed = above + moment.total + extra
            candidate = moment._replace(kept=kept - cached - read, borrowed=borrowed)
            best = max(best, candidate, key=lambda each: each.total)
        above += part.saved
    forward = forward._replace(kept=kept - read, borrowed=forward.total)
    return Segment(name, kept, forward, best, gradients)
