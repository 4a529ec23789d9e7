"""The grammar of `pipeline_model_parallel_layout`.

Commas are decoration. `(...)*n` repeats a group, then `x*n` one letter, which a group may hold;
groups do not nest. `|` divides virtual stages. Letters: E embedding, t decoder layer, m
multi-token-prediction layer, L head and loss. Source:
megatron/core/transformer/pipeline_parallel_layer_layout.py.
"""

import re
from functools import lru_cache
from typing import NamedTuple

MAX_STAGES = 4096
MAX_ITEMS = 8192


class VirtualStage(NamedTuple):
    """What one virtual stage holds."""

    embedding: bool
    layers: int
    mtp_layers: int
    output_layer: bool


@lru_cache(maxsize=256)
def parse_layout(text: str) -> tuple[VirtualStage, ...]:
    """Virtual stages in order. Raises ValueError that says which rule of the grammar is broken."""
    items = _unroll(text)
    stages = tuple(_stage(part) for part in items.split("|"))
    if items.count("E") != 1 or not items.startswith("E"):
        raise ValueError("a layout names E once, first")
    if items.count("L") != 1 or not items.endswith("L"):
        raise ValueError("a layout names L once, last")
    if sum(stage.mtp_layers > 0 for stage in stages) > 1:
        raise ValueError("all m stand in one stage")
    if "m" in items and "t" in items and items.index("m") < items.rindex("t"):
        raise ValueError("m comes after every t")
    return stages


def _unroll(text: str) -> str:
    compact = re.sub(r"[\s,]", "", text)
    compact = _repeat(compact, r"\(([EtmL|*\d]*)\)\*(\d{1,5})")
    compact = _repeat(compact, r"([EtmL|])\*(\d{1,5})")
    if re.search(r"[^EtmL|]", compact):
        raise ValueError("a layout is made of E, t, m, L, |, (...)*n and x*n; groups do not nest")
    if compact.count("|") >= MAX_STAGES:
        raise ValueError(f"a layout has at most {MAX_STAGES} stages")
    return compact


def _repeat(text: str, pattern: str) -> str:
    length = len(text)
    for match in re.finditer(pattern, text):
        length += len(match[1]) * int(match[2])
        if length > MAX_ITEMS:
            raise ValueError(f"a layout names at most {MAX_ITEMS} items")
    return re.sub(pattern, lambda match: match[1] * int(match[2]), text)


def _stage(part: str) -> VirtualStage:
    return VirtualStage("E" in part, part.count("t"), part.count("m"), "L" in part)
