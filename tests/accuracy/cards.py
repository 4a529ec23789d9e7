"""The cards that rows name, as the catalogue knows them."""

from __future__ import annotations

import re
from typing import Any

from trainfit.catalog.gpus import Gpu, UnknownGpuError, find_gpu


def card_of(gpu: dict[str, Any]) -> Gpu | None:
    """The catalogue's card for a row's type and memory in GB; None where it lists none.

    Rows add remarks in brackets and counts ("A100 x8"); a name is tried with its memory first,
    because one name is sold in several sizes.
    """
    name = re.sub(r"\(.*\)| x\d+$", "", gpu["type"]).strip()
    memory = gpu.get("memory_gb")
    for spelling in (f"{name}-{memory}GB", name):
        card = _known(spelling)
        if card is not None and (memory is None or abs(card.marketing_gb / memory - 1) < 0.1):
            return card
    return None


def _known(name: str) -> Gpu | None:
    try:
        return find_gpu(name)
    except UnknownGpuError:
        return None
