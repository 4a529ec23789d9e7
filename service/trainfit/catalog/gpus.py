"""The GPU catalogue: memory as the driver reports it, which is less than what is sold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal

Confidence = Literal["sourced", "sourced-by-value", "estimate", "general"]

_SEPARATORS = str.maketrans("", "", " -_")
_MATCHES_OFFERED = 5


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device as a process sees it; a die or tile where the driver counts each as a device.

    `reported_bytes` is the device total that PyTorch shows (the "total capacity" of an
    out-of-memory message), with ECC as the card ships. `confidence` grades it: "sourced" was read
    for this card, "sourced-by-value" was read and the card inferred, "estimate" was derived from a
    sibling card, "general" is common knowledge; `source` says from what.
    """

    name: str
    vendor: Literal["nvidia", "amd", "intel", "huawei"]
    compute_capability: str | None
    """CUDA's, written "sm_90"; None outside NVIDIA."""
    aliases: tuple[str, ...]
    marketing_gb: int
    reported_bytes: int
    confidence: Confidence
    source: str
    memory_bandwidth_bytes_per_second: int
    bf16_flops: int | None
    """Dense FLOP per second in bf16; None where the card has no bf16 matrix units."""
    fp8_flops: int | None
    """Dense FLOP per second in fp8; None where the card has no fp8 matrix units."""
    interconnect: str
    gpus_per_node: int
    """Devices in the usual node."""


class UnknownGpuError(ValueError):
    """No catalogue name or alias reads like this; `close_matches` are names that nearly do."""

    def __init__(self, close_matches: tuple[str, ...]) -> None:
        hint = f"; close: {', '.join(close_matches)}" if close_matches else ""
        super().__init__(f"no such GPU in the catalogue{hint}")
        self.close_matches = close_matches


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every card, in the catalogue's order."""
    cards = json.loads(files("trainfit.catalog").joinpath("gpus.json").read_text("utf-8"))
    return tuple(Gpu(**{**card, "aliases": tuple(card["aliases"])}) for card in cards)


def find_gpu(name: str) -> Gpu:
    """The card of this name or alias, whatever its case, spaces, dashes and underscores.

    A bare family name sold in several sizes ("A100") is no alias: half the memory is no detail.

    Raises:
        UnknownGpuError: nothing in the catalogue has this name.
    """
    key = spelling_key(name)
    by_key = _gpus_by_key()
    if key in by_key:
        return by_key[key]
    near = [known for known in by_key if key and known.startswith(key)]
    near += get_close_matches(key, by_key, n=_MATCHES_OFFERED)
    names = dict.fromkeys(by_key[known].name for known in near)
    raise UnknownGpuError(tuple(names)[:_MATCHES_OFFERED])


def spelling_key(name: str) -> str:
    """What two spellings of one name share."""
    return name.casefold().translate(_SEPARATORS)


@cache
def _gpus_by_key() -> dict[str, Gpu]:
    return {spelling_key(name): gpu for gpu in gpus() for name in (gpu.name, *gpu.aliases)}
