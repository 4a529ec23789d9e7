"""A stretch of a model priced on its own: what it saves and its highest moments.

The ledger is walked as a step runs it: forward, adding what each operation saves; backward, from
the end, giving it back. The highest point of each walk is kept with the operation it falls on.
"""

from typing import NamedTuple

from trainfit.estimator.ledger import Group, Lifetime, Operation


class Moment(NamedTuple):
    """Bytes alive at one operation, above those alive before the stretch."""

    operation: str
    kept: int
    """Saved or held."""
    borrowed: int
    """Alive within this operation only."""

    @property
    def total(self) -> int:
        return self.kept + self.borrowed


class Segment(NamedTuple):
    """A stretch of a model: a layer, a recomputed group of layers, an embedding, a head."""

    name: str
    saved: int
    forward: Moment
    backward: Moment


class _Sums(NamedTuple):
    """One operation's bytes by lifetime under a recompute policy."""

    name: str
    saved: int
    held: int
    forward: int
    backward: int
    dropped: int
    dropped_by: str


def price(name: str, groups: tuple[Group, ...], modules: frozenset[str], gradient: int) -> Segment:
    """Walk a stretch forward and backward.

    `modules` are those recomputed; `gradient` is the bytes of the gradient that flows along the
    residual stream while the stretch runs backward.
    """
    table = [[_sums(operation, modules) for operation in group] for group in groups]
    flat = [sums for group in table for sums in group]
    saved = sum(sums.saved for sums in flat)
    return Segment(name, saved, _forward(table), _backward(flat, saved, gradient))


def _sums(operation: Operation, modules: frozenset[str]) -> _Sums:
    saved = held = forward = backward = dropped = 0
    dropper = ""
    for tensor in operation.tensors:
        size = tensor.bytes
        match tensor.lifetime:
            case Lifetime.SAVED:
                by = next((m for m in tensor.dropped_by if m in modules), "")
                if by:
                    dropped, dropper = dropped + size, by
                else:
                    saved += size
            case Lifetime.HELD:
                held += size
            case Lifetime.FORWARD:
                forward += size
            case Lifetime.BACKWARD:
                backward += size
    return _Sums(operation.name, saved, held, forward, backward, dropped, dropper)


def _forward(table: list[list[_Sums]]) -> Moment:
    best = Moment("", 0, 0)
    live = 0
    for group in table:
        held = 0
        for sums in group:
            live += sums.saved
            held += sums.held
            borrowed = sums.forward + sums.dropped
            if live + held + borrowed > best.total:
                best = Moment(sums.name, live + held, borrowed)
    return best


def _backward(flat: list[_Sums], saved: int, gradient: int) -> Moment:
    """What a module dropped is made again when the walk comes to the last operation it ran; the
    rerun borrows what its forward borrowed.
    """
    best = Moment("", 0, 0)
    live = saved
    restored: dict[str, int] = {}
    for sums in reversed(flat):
        again = 0
        if sums.dropped and sums.dropped_by not in restored:
            module = [each for each in flat if each.dropped_by == sums.dropped_by]
            restored[sums.dropped_by] = sum(each.dropped for each in module)
            again = _rerun_peak(module)
        remade = sum(restored.values())
        borrowed = remade + gradient + max(sums.backward, again)
        if live + borrowed > best.total:
            best = Moment(sums.name, live, borrowed)
        live -= sums.saved
        if sums.dropped:
            restored[sums.dropped_by] -= sums.dropped
    return best


def _rerun_peak(module: list[_Sums]) -> int:
    """What a module's forward holds and borrows at most while it is run again."""
    held = best = 0
    for sums in module:
        held += sums.held
        best = max(best, held + sums.forward)
    return best


def rerun(name: str, parts: list[Segment], kept: int, gradient: int) -> Segment:
    """A stretch under full recompute: its input is kept, the rest made again in backward.

    In forward without gradients a part lets go of what it made before the next one starts. In
    backward the whole stretch runs forward again before it runs backward.
    """
    forward = max((part.forward for part in parts), key=lambda moment: moment.total)
    best = Moment("", 0, 0)
    above = 0
    for part in parts:
        for moment, extra in ((part.forward, gradient), (part.backward, 0)):
            candidate = Moment(moment.operation, kept, above + moment.total + extra)
            best = max(best, candidate, key=lambda each: each.total)
        above += part.saved
    return Segment(name, kept, Moment(forward.operation, kept, forward.total), best)
