"""On which cards a job fits."""

from __future__ import annotations

from rich.text import Text

from trainfit.catalog.gpus import Gpu, find_gpu
from trainfit.cli.colours import STYLES
from trainfit.decisions.quantities import gib
from trainfit.decisions.room import room_on
from trainfit.decisions.verdict import Verdict, verdict
from trainfit.estimator.results import Estimate
from trainfit.resolve.plan import TargetGpu
from trainfit.specs.gpu import JobGpu
from trainfit.specs.policy import Policy

DATA_CENTRE = ("A100-40GB", "H100-80GB", "H100-96GB", "H200-141GB", "B200", "B300")
"""One card of each memory size that Megatron is usually run on, smallest first."""

WORDS: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "tight on",
    "does_not_fit": "does not fit",
    "unknown": "fits as far as it is counted",
}


def own_card(result: Estimate, gpu: JobGpu, card: TargetGpu) -> Text:
    """The verdict on the card that the job names, less what others hold of it."""
    room = room_on(gpu, Policy())
    others = f", {gib(room.usable_bytes)} usable" if room.reserved_other_bytes else ""
    found = room.verdict(result)
    words = f"{WORDS[found]} {card.name} ({gib(room.capacity_bytes)} GiB{others})"
    return Text(words, STYLES[found])


def usual_cards(result: Estimate, own: TargetGpu) -> Text:
    """The verdict on every usual card but the job's own, the smallest that fits first."""
    cards: dict[Verdict, list[Gpu]] = {each: [] for each in WORDS}
    for name in DATA_CENTRE:
        gpu = find_gpu(name)
        if gpu.name != own.name:
            cards[verdict(result, gpu.reported_bytes)].append(gpu)
    return Text("; ").join(
        Text(f"{WORDS[each]} {', '.join(_shown(gpu) for gpu in found)}", STYLES[each])
        for each, found in cards.items()
        if found
    )


def _shown(gpu: Gpu) -> str:
    return f"{gpu.name} ({gib(gpu.reported_bytes)})"
