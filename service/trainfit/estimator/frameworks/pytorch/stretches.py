"""The segments of a model in the order in which they run, each with the unit gathered for it.

transformers has FSDP gather the experts that it divides over ranks by themselves: such a layer runs
in three parts. Sources: transformers' distributed/fsdp.py, torch/distributed/fsdp/_fully_shard
(_fsdp_state.py), torch/utils/checkpoint.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trainfit.estimator.frameworks.pytorch.conventions import conventions_of
from trainfit.estimator.frameworks.pytorch.engines.registry import engine_of
from trainfit.estimator.frameworks.pytorch.ledger import PytorchLedger
from trainfit.estimator.frameworks.pytorch.states import Numbers, Shares
from trainfit.estimator.frameworks.pytorch.units import NONE, Unit
from trainfit.estimator.peak import PlacedSegment
from trainfit.estimator.placement import Content
from trainfit.estimator.segment import Segment
from trainfit.resolve.pytorch.plan import PytorchPlan


class Again(NamedTuple):
    """A layer that runs forward again before its backward, and the buffers that this takes."""

    layer: Segment
    buffers: int


class Stretch(NamedTuple):
    """A segment, and the unit that is gathered for it: NONE where it stands in the root.

    `last` marks the segment whose backward is the last of its unit, `around` is the unit in which
    its own one is nested. Before its backward the layer runs `again`; behind it `released` bytes
    are gone that the layer kept for that.
    """

    placed: PlacedSegment
    unit: Unit
    last: bool
    around: Unit = NONE
    again: Again | None = None
    released: int = 0


class LayerUnits(NamedTuple):
    """The unit of a layer, and those of its experts and of all else where these are apart."""

    whole: Unit
    dense: Unit
    experts: Unit


class Stretches(NamedTuple):
    """The unit of the root, and the stretches forward and backward, both in forward order."""

    root: Unit
    forward: list[Stretch]
    backward: list[Stretch]


def stretches(ledger: PytorchLedger, shares: Shares, content: Content) -> Stretches:
    """A chunk's segments with their units: a layer is one, and the final norm and the head are one
    unless they belong to the root.
    """
    plan, engine = ledger.plan, engine_of(ledger.plan)
    embedding, rest = shares.outside(content)
    apart = plan.step.data_parallelism.embedding_and_head_apart
    first, last = (engine.unit(each) if apart else NONE for each in (embedding, rest))
    root = NONE if apart else engine.unit(embedding.plus(rest))
    units = {kind: _layer_units(shares.layer(kind), plan) for kind in set(content.kinds)}
    made = Stretches(root, [], [])
    for stretch in _stretches(ledger, content, units, first, last):
        forward, backward = _passes(ledger, stretch, units)
        made.forward.extend(forward)
        made.backward.extend(backward)
    return made


def within_runs(stretches: Sequence[Stretch]) -> frozenset[int]:
    """Places of the stretches that have two of their kind before them and two behind."""
    kinds = [each.placed.segment for each in stretches]
    around = zip(kinds, kinds[1:], kinds[2:], kinds[3:], kinds[4:], strict=False)
    return frozenset(
        [place for place, (a, b, c, d, e) in enumerate(around, 2) if a is b is c is d is e]
    )


def _layer_units(numbers: Numbers, plan: PytorchPlan) -> LayerUnits:
    """transformers has FSDP gather the experts that it divides over ranks by themselves."""
    engine = engine_of(plan)
    whole = engine.unit(numbers)
    apart = conventions_of(plan).experts_are_a_unit and plan.layout.ep > 1
    if not (apart and numbers.expert):
        return LayerUnits(whole, whole, NONE)
    matrices = numbers.trained_matrices - numbers.expert
    dense = numbers._replace(expert=0, trained_matrices=matrices)
    experts = Numbers(0, numbers.expert, 0, 0, numbers.expert)
    return LayerUnits(whole, engine.unit(dense), engine.unit(experts))


def _stretches(
    ledger: PytorchLedger, content: Content, units: dict[int, LayerUnits], first: Unit, last: Unit
) -> Iterator[Stretch]:
    """The segments with their units: a layer is one, the final norm and the head are one."""
    for placed in ledger.segments(content):
        if placed.kind is not None:
            yield Stretch(placed, units[placed.kind].whole, True)
        elif placed.segment.name == "embedding":
            yield Stretch(placed, first, True)
        else:
            yield Stretch(placed, last, placed.segment.name == "final_norm")


def _passes(
    ledger: PytorchLedger, stretch: Stretch, units: dict[int, LayerUnits]
) -> tuple[list[Stretch], list[Stretch]]:
    """A stretch as forward and as backward run it: a layer in parts where its experts are a unit
    of their own.
    """
    placed, kind = stretch.placed, stretch.placed.kind
    if kind is None or units[kind].experts is NONE:
        return [stretch], [stretch]
    parts = _parts(ledger, placed, kind, units[kind])
    if placed.segment is ledger.layer_segments[kind]:
        return parts, parts
    if placed.segment is ledger.checkpointed_segments[kind]:
        kept = placed.segment.saved
        return _keeping(parts, kept), _running_again(ledger, parts, kind, units[kind], kept)
    return [stretch], [stretch]


def _parts(
    ledger: PytorchLedger, placed: PlacedSegment, kind: int, units: LayerUnits
) -> list[Stretch]:
    """What comes before the experts of a layer, the experts, and what comes behind."""
    before, experts, behind = (
        placed._replace(segment=part) for part in ledger.around_experts(kind)
    )
    return [
        Stretch(before, units.dense, True),
        Stretch(experts, units.experts, True, units.dense),
        Stretch(behind, units.dense, False),
    ]


def _keeping(parts: list[Stretch], kept: int) -> list[Stretch]:
    """Parts of a checkpointed layer, which keep `kept` bytes of its input and nothing else."""
    made = []
    for part in parts:
        moment = part.placed.segment.forward
        whole = moment._replace(kept=kept, borrowed=moment.total)
        segment = part.placed.segment._replace(saved=kept, forward=whole)
        made.append(part._replace(placed=part.placed._replace(segment=segment)))
        kept = 0
    return made


def _running_again(
    ledger: PytorchLedger, parts: list[Stretch], kind: int, units: LayerUnits, kept: int
) -> list[Stretch]:
    """Parts of a layer that runs again. Where its experts are the last to save anything, they are
    gathered for their backward by then, and the next layer meanwhile.
    """
    before, experts, behind = parts
    beside = (
        units.experts.all_gather_kept if behind.placed.segment.saved else units.dense.all_gather
    )
    again = Again(ledger.until_saved(kind), units.whole.weights + beside)
    return [before._replace(released=kept), experts, behind._replace(again=again)]
