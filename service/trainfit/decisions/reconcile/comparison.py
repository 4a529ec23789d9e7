"""Figures of a run beside the bounds of the stage that they are of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainfit.estimator.results import Estimate, Interval, Stage
from trainfit.specs.artifacts import Counter, Place
from trainfit.specs.reconcile import Figure

Quantity = Literal["resident", "allocated", "reserved", "device"]
"""What is compared: bytes allocated between two steps, and at the peak; reserved; on the card."""

QUANTITIES: Mapping[Counter, Quantity] = {
    "allocated_bytes.all.current": "resident",
    "allocated_bytes.all.peak": "allocated",
    "active_bytes.all.peak": "allocated",
    "reserved_bytes.all.current": "reserved",
    "reserved_bytes.all.peak": "reserved",
    "device_used": "device",
    "process_used": "device",
}
PEAKS: tuple[Quantity, ...] = ("allocated", "reserved", "device")
OF_THE_ALLOCATOR: tuple[Quantity, ...] = ("reserved", "device")
"""What its requests decide, beside the tensors."""
FIRST_STEP = 1
FULL_MEMORY = "out of memory"
WITHIN_A_STEP = re.compile(
    r"\b(?:after|end of) (?:the )?forward|\bbackward|\bbefore (?:the )?(?:optimizer )?step|"
    r"\bafter (?:the )?(?:offload|sleep)",
    re.IGNORECASE,
)
"""Moments that programs name, as DeepSpeed's see_memory_usage does, of which more is allocated, or
less, where a model that waits for samples lies on the host.
"""
BEFORE_TRAINING = re.compile(
    r"^start$|\b(?:baseline|building|creating|init(?:_model)?|initializ(?:e|ing)|broadcasting)\b|"
    r"\bload(?:ing)? (?:base )?model\b|\bparallelize model\b|\bmodel (?:allocation|is built|load)|"
    r"\badapters$|\bbefore training\b|\b(?:before|after) (?:\w+ )?fsdp\b|\bdeepspeed engine:",
    re.IGNORECASE,
)
"""Moments that programs name while a model, its shards or the optimizer are made: axolotl,
DeepSpeed, Megatron-DeepSpeed (pretrain_gpt.py), slime, torchtitan, torchtune and verl
(fsdp_workers.py, megatron_workers.py).
"""


class FullMemory(NamedTuple):
    """What an error of a full memory tells, by counter."""

    rank: int | None
    figures_by_counter: Mapping[Counter, Figure]


def errors(figures: Iterable[Figure]) -> Iterator[FullMemory]:
    """The errors of a full memory among the figures, each by itself."""
    found: dict[tuple[int | None, str, int], dict[Counter, Figure]] = defaultdict(dict)
    for each in figures:
        if each.format == FULL_MEMORY:
            found[each.rank, each.source.name, each.source.line][each.counter] = each
    for (rank, _, _), figures_by_counter in found.items():
        yield FullMemory(rank, figures_by_counter)


Verdict = Literal["within", "below", "above", "not_comparable"]


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """What a rank took beside what was predicted of its stage. `residual_bytes` is the measured
    less the expected; `within` holds if the measured, as exact as it was printed, lies between the
    bounds. A figure that is not comparable says `why`. `at_least` marks what a run had when its
    memory was full: it needed that and more.
    """

    quantity: Quantity
    rank: int | None
    pp_rank: int | None
    step: int | None
    measured_bytes: int
    resolution_bytes: int
    at_least: bool
    predicted: Interval | None
    residual_bytes: int | None
    verdict: Verdict
    why: str | None
    source: Place


def comparable(figures: Iterable[Figure]) -> list[Figure]:
    """One figure for every rank and quantity that they tell: of peaks the highest of the later
    steps, of what is allocated between steps the last.
    """
    found: dict[tuple[int | None, Quantity], Figure] = {}
    for each in figures:
        quantity = QUANTITIES.get(each.counter)
        if quantity is None or not each.bytes:
            continue
        key = each.rank, quantity
        before = found.get(key)
        if before is None or _tells_more(each, before, quantity):
            found[key] = each
    return list(found.values())


def rest_on_the_allocator(figures: Iterable[Figure]) -> bool:
    """Whether any of the figures is of more than tensors."""
    return any(QUANTITIES.get(each.counter) in OF_THE_ALLOCATOR for each in figures)


def comparisons(figures: Iterable[Figure], estimate: Estimate) -> list[ComparedFigure]:
    """Figures that can be compared, each beside the bounds of its stage."""
    return [_compared(each, estimate) for each in figures]


def _tells_more(new: Figure, old: Figure, quantity: Quantity) -> bool:
    """Whether a figure is to stand for a rank in the place of another."""
    is_better = is_between_steps if quantity == "resident" else is_later
    if is_better(new) != is_better(old):
        return is_better(new)
    return new.bytes > old.bytes if quantity in PEAKS else True


def is_later(figure: Figure) -> bool:
    """Whether it was read after the first step, in which the optimizer's states are made."""
    return not is_before_training(figure) if figure.step is None else figure.step > FIRST_STEP


def is_before_training(figure: Figure) -> bool:
    """Whether it was read before the first step."""
    return figure.step is None and BEFORE_TRAINING.search(figure.moment) is not None


def is_between_steps(figure: Figure) -> bool:
    """Whether it was read after a later step, when no activation is left and no gradient."""
    is_within = figure.format == FULL_MEMORY or WITHIN_A_STEP.search(figure.moment)
    return is_later(figure) and not is_within


def _compared(figure: Figure, estimate: Estimate) -> ComparedFigure:
    quantity = QUANTITIES[figure.counter]
    pp_rank, why = stage_of(figure.rank, estimate)
    full = figure.format == FULL_MEMORY
    if why is None and is_before_training(figure):
        why = "it was read before the first step"
    if why is None and quantity == "resident" and not is_between_steps(figure):
        why = "it was read within a step, or before the optimizer's states were made"
    predicted = None
    if why is None and pp_rank is not None:
        predicted = predicted_of(estimate.stages[pp_rank], quantity)
    return ComparedFigure(
        quantity=quantity,
        rank=figure.rank,
        pp_rank=pp_rank,
        step=figure.step,
        measured_bytes=figure.bytes,
        resolution_bytes=figure.resolution_bytes,
        at_least=full,
        predicted=predicted,
        residual_bytes=None if predicted is None else figure.bytes - predicted.expected,
        verdict=_verdict(figure, predicted, at_least=full),
        why=why,
        source=figure.source,
    )


def stage_of(rank: int | None, estimate: Estimate) -> tuple[int | None, str | None]:
    """The pipeline rank of a rank, or why it is not known. Pipeline ranks are the outermost
    dimension of every framework's ranks: each has the next num_gpus / pp of them.
    """
    stages, num_gpus = len(estimate.stages), estimate.parallelism.num_gpus
    if rank is None:
        return (0, None) if stages == 1 else (None, "no line says which rank it is of")
    if rank >= num_gpus:
        return None, f"the job has {num_gpus} GPUs, and no rank {rank}"
    return rank // (num_gpus // stages), None


def predicted_of(stage: Stage, quantity: Quantity) -> Interval:
    """What is predicted of a stage. What is resident has the bounds of what is allocated."""
    match quantity:
        case "resident":
            resident, bounds = stage.resident_bytes, stage.allocated_bytes
            low, high = bounds.expected - bounds.low, bounds.high - bounds.expected
            return Interval(max(0, resident - low), resident, resident + high)
        case "allocated":
            return stage.allocated_bytes
        case "reserved":
            return stage.reserved_bytes
        case "device":
            return stage.device_bytes


def _verdict(figure: Figure, predicted: Interval | None, *, at_least: bool) -> Verdict:
    if predicted is None:
        return "not_comparable"
    if figure.bytes - figure.resolution_bytes > predicted.high:
        return "above"
    if figure.bytes + figure.resolution_bytes < predicted.low and not at_least:
        return "below"
    return "within"


def residuals(found: Iterable[ComparedFigure]) -> list[float]:
    """How far what was measured is from what was expected, relative to it, where both can be
    compared.
    """
    return [off / each.measured_bytes for each in found if (off := off_bytes(each)) is not None]


def off_bytes(found: ComparedFigure) -> int | None:
    """How far the measured is from the expected, None where they cannot be compared. What a run
    needed at least is off only as far as less was expected.
    """
    if found.residual_bytes is None or not found.at_least:
        return found.residual_bytes
    return max(0, found.residual_bytes)
