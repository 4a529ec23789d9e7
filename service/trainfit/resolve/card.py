"""The card that a caller means: as the catalogue knows it, or as the caller describes it."""

from trainfit.catalog.gpus import find_gpu
from trainfit.resolve.plan import Card
from trainfit.specs.gpu import CustomGpu, JobGpu

NO_CARD = Card("", 0, "")


def card_of(gpu: JobGpu | None) -> Card:
    """The card of this name, or of this memory. Raises UnknownGpuError."""
    if gpu is None:
        return NO_CARD
    if isinstance(gpu, CustomGpu):
        if gpu.memory_bytes is not None:
            return Card(gpu.name, gpu.memory_bytes, "")
        gpu = gpu.name
    card = find_gpu(gpu)
    return Card(card.name, card.reported_bytes, card.compute_capability or "")
