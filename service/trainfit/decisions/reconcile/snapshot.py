"""The blocks of a recording beside the tensors of the ledger: sizes are told apart to the byte, so
that what is alike is likely to be the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from trainfit.decisions.reconcile.attribution import Attribution
from trainfit.estimator.results import ComponentName, Stage
from trainfit.estimator.tree import Module
from trainfit.specs.snapshot import Phase, SnapshotSummary, TensorGroup

Part = Literal["weights", "gradients", "optimizer_states", "activations"]
FP32 = 4
"""Bytes of an element of a moment, or of a master weight, that is no element of its weight's."""
ROUNDING = 512
"""The allocator rounds to so many bytes; older recordings tell no other size."""
LIKELY: Mapping[Phase, Sequence[Part]] = {
    "before": ("weights", "optimizer_states", "gradients"),
    "forward": ("activations", "weights"),
    "backward": ("gradients", "activations"),
    "optimizer": ("optimizer_states", "weights"),
}
"""What a block is that was asked for then, the likeliest first."""
MASTER_AND_MOMENTS = 3
"""Of each share of a weight that lies in a buffer."""
APART = 0.01
"""Of a stage's weights, what buffers are padded by, and what is no buffer of them."""
NAMES = 3
UNMATCHED = "unmatched"
TOLD = 64


@dataclass(frozen=True, slots=True)
class MatchedBlocks:
    """Blocks of one size that are tensors of the ledger: so many of the `predicted_count` that a
    part has of it. `names` are some of them.
    """

    part: Part
    names: list[str]
    bytes: int
    count: int
    predicted_count: int


@dataclass(frozen=True, slots=True)
class UnmatchedBlocks:
    """Blocks of which the ledger has none, or no more."""

    bytes: int
    count: int
    phase: Phase
    kept: bool
    stack: list[str]


@dataclass(frozen=True, slots=True)
class SnapshotMatch:
    """A recording beside the ledger of its stage. Those with most bytes are listed; the sums are
    over all.
    """

    rank: int | None
    pp_rank: int
    peak_bytes: int
    matched_bytes: int
    unmatched_bytes: int
    matched: list[MatchedBlocks]
    unmatched: list[UnmatchedBlocks]
    attributions: list[Attribution]


@dataclass(slots=True)
class _Expected:
    """Tensors of one size and part: their names, how many there are, and how many were found."""

    count: int = 0
    found: int = 0
    names: dict[str, None] = field(default_factory=dict)


Expected = dict[tuple[int, Part], _Expected]


def matched(
    summary: SnapshotSummary, modules: Module, loaded: Mapping[int, int], stage: Stage
) -> SnapshotMatch:
    """What of a recording is what: each block is one tensor at most, and each tensor one block.
    `loaded` are how many blocks of which bytes are there before the first step, where requests are
    known: weights, or the buffers that they lie in with their gradients, and master weights.
    """
    expected = _expected(modules, loaded, stage)
    found: list[MatchedBlocks] = []
    left: list[UnmatchedBlocks] = []
    parts: dict[Part, int] = defaultdict(int)
    for group in summary.peak:
        count = group.count
        for part, some in _taken(group, expected):
            found.append(some)
            parts[part] += some.bytes * some.count
            count -= some.count
        if count:
            stack = list(group.stack)
            left.append(UnmatchedBlocks(group.bytes, count, group.phase, group.kept, stack))
    known = sum(parts.values())
    left.sort(key=lambda each: -each.bytes * each.count)
    return SnapshotMatch(
        rank=summary.rank,
        pp_rank=stage.pp_rank,
        peak_bytes=summary.peak_bytes,
        matched_bytes=known,
        unmatched_bytes=summary.peak_bytes - known,
        matched=sorted(found, key=lambda each: -each.bytes * each.count)[:TOLD],
        unmatched=left[:TOLD],
        attributions=list(_attributed(parts, summary.peak_bytes - known, stage)),
    )


def _taken(
    group: TensorGroup, expected: Mapping[tuple[int, Part], _Expected]
) -> Iterator[tuple[Part, MatchedBlocks]]:
    """What a group of blocks is, the likeliest part first, until none are left."""
    count = group.count
    for part in LIKELY[group.phase]:
        tensors = expected.get((_rounded(group.bytes), part))
        if tensors is None or not (some := min(count, tensors.count - tensors.found)):
            continue
        tensors.found += some
        count -= some
        names = list(tensors.names)[:NAMES]
        yield part, MatchedBlocks(part, names, group.bytes, some, tensors.count)


def _expected(modules: Module, loaded: Mapping[int, int], stage: Stage) -> Expected:
    """Every tensor of a stage by its size and part."""
    expected: Expected = defaultdict(_Expected)

    def put(name: str, size: int, part: Part, count: int) -> None:
        tensors = expected[_rounded(size), part]
        tensors.count += count
        tensors.names[name] = None

    widths = {each.name: round(each.bytes_per_parameter) or FP32 for each in stage.components}
    width, wider = widths["weights"], widths["gradients"]
    leaves = list(_leaves(modules))
    owned = [each for each in leaves if each.split is not None]
    names = {each.parameters_per_gpu // each.count * width: each.name for each in owned}
    buffers = _buffers(loaded, stage, Fraction(wider, width))
    if buffers:
        for size in buffers:
            put("weights in one buffer", size, "weights", 1)
            put("gradients in one buffer", size * wider // width, "gradients", 1)
        for size in loaded.keys() - {each for b in buffers for each in (b, b * wider // width)}:
            put("optimizer states", size, "optimizer_states", loaded[size] * MASTER_AND_MOMENTS)
    else:
        weights = Counter(loaded)
        for each in owned if not loaded else ():
            weights[each.parameters_per_gpu // each.count * width] += each.count
        for size, count in weights.items():
            name, elements = names.get(size, "weight"), size // width
            put(name, size, "weights", count)
            put(name, elements * wider, "gradients", count)
            for state in {width, FP32}:
                states = max(1, widths["optimizer_states"] // state)
                put(name, elements * state, "optimizer_states", count * states)
    for leaf in leaves:
        for tensor in leaf.tensors:
            times = stage.microbatches_in_flight if tensor.lifetime == "saved" else 1
            if tensor.lifetime != "gradient":
                put(tensor.name, tensor.bytes, "activations", leaf.count * times)
    return expected


def _buffers(loaded: Mapping[int, int], stage: Stage, ratio: Fraction) -> list[int]:
    """The buffers that weights lie in, the largest first: beside each is one of their gradients,
    and together they are the weights of the stage. None where each weight is a block.
    """
    left = whole = next(each.bytes for each in stage.components if each.name == "weights")
    pair = {size: Counter([size, int(size * ratio)]) for size in loaded}
    found = []
    for size in sorted(loaded, reverse=True):
        alone = all(loaded.get(each) == count for each, count in pair[size].items())
        if alone and APART * whole < size <= (1 + APART) * left:
            found.append(size)
            left -= size
    return found if left <= APART * whole else []


def _leaves(module: Module) -> Iterator[Module]:
    if not module.children:
        yield module
    for child in module.children:
        yield from _leaves(child)


def _rounded(size: int) -> int:
    return -(-size // ROUNDING) * ROUNDING


def _attributed(parts: Mapping[Part, int], rest: int, stage: Stage) -> Iterator[Attribution]:
    """Each part of the stage beside what was found of it, and what nothing was."""
    sizes = {each.name: each.bytes for each in stage.components}
    others: tuple[ComponentName, ...] = ("workspace", "framework_buffers")
    for part in ("weights", "gradients", "optimizer_states", "activations"):
        yield Attribution(stage.pp_rank, part, "measured", sizes[part], parts.get(part, 0))
    predicted = sum(sizes[each] for each in others)
    yield Attribution(stage.pp_rank, UNMATCHED, "group", predicted, rest)
