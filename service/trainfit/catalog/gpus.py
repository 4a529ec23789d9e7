"""The GPU catalogue: memory as the driver reports it, which is less than what is sold."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

from trainfit.errors import TrainfitError

Confidence = Literal["sourced", "sourced-by-value", "estimate", "general"]

_SEPARATORS = str.maketrans("", "", " -_")
_MATCHES_OFFERED = 5
_MIB = 2**20
_SIZE = re.compile(r"(\d{2,3})(?:g|gb|gib)?")
_SLICE = re.compile(r"(?P<card>.+?)(?:mig)?(?P<profile>\dg\.\d+gb)(?:\+me|\+gfx)?")
"""A slice in `spelling_key`'s form; media and graphics engines take no memory."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One way to cut a slice from a card: of "3g.40gb", three compute slices of the card's seven.

    `memory_eighths` of the card's memory belong to the slice, which reports `reported_bytes`; a
    card holds `instances` of it at most.
    """

    name: str
    instances: int
    memory_eighths: int
    reported_bytes: int


@dataclass(frozen=True, slots=True)
class Mig:
    """How NVIDIA's Multi-Instance GPU divides a card; `confidence` and `source` as of a `Gpu`."""

    confidence: Confidence
    source: str
    profiles: tuple[MigProfile, ...]


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
    mig: Mig | None
    """Its slices, each a device of its own: "H100 3g.40gb" names one. None where it has none."""


class UnknownGpuError(TrainfitError, ValueError):
    """No catalogue name or alias reads like this; `close_matches` are names that nearly do."""

    def __init__(self, close_matches: tuple[str, ...], why: str = "") -> None:
        hint = f"close: {', '.join(close_matches)}" if close_matches else "give its memory_bytes"
        super().__init__(why or f"no such GPU in the catalogue; {hint}")
        self.close_matches = close_matches


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every card, in the catalogue's order."""
    catalogue = json.loads(files("trainfit.catalog").joinpath("gpus.json").read_text("utf-8"))
    mig = {name: _mig(family) for family in catalogue["mig"] for name in family["cards"]}
    return tuple(
        Gpu(**{**card, "aliases": tuple(card["aliases"]), "mig": mig.get(card["name"])})
        for card in catalogue["cards"]
    )


def find_gpu(name: str) -> Gpu:
    """The card of this name or alias, whatever its case, spaces, dashes and underscores.

    A card's name and a profile, with or without "MIG" between them, is that slice of the card. A
    bare family name sold in several sizes ("A100") is no alias: half the memory is no detail.

    Raises:
        UnknownGpuError: nothing in the catalogue has this name.
    """
    key = spelling_key(name)
    by_key = _gpus_by_key()
    if key in by_key:
        return by_key[key]
    if sliced := _SLICE.fullmatch(key):
        return _find_slice(sliced["card"], sliced["profile"])
    if sized := _SIZE.fullmatch(key):
        _ask_which(int(sized[1]))
    raise UnknownGpuError(tuple(gpu.name for gpu in _near(key))[:_MATCHES_OFFERED])


def _ask_which(size: int) -> None:
    """Refuse a size in the place of a name, where cards are sold in that size."""
    names = tuple(gpu.name for gpu in gpus() if re.search(rf"(?<!\d){size}GB", gpu.name))
    if names:
        names = names[:_MATCHES_OFFERED]
        raise UnknownGpuError(names, f"which card of {size} GB: {', '.join(names)}?")


def spelling_key(name: str) -> str:
    """What two spellings of one name share."""
    return name.casefold().translate(_SEPARATORS)


@cache
def _gpus_by_key() -> dict[str, Gpu]:
    return {spelling_key(name): gpu for gpu in gpus() for name in (gpu.name, *gpu.aliases)}


@lru_cache(maxsize=256)
def _near(key: str) -> tuple[Gpu, ...]:
    """The cards whose names are like this one, which takes longer than an estimate."""
    by_key = _gpus_by_key()
    near = [known for known in by_key if key and known.startswith(key)]
    near += get_close_matches(key, by_key, n=_MATCHES_OFFERED)
    return tuple({by_key[known].name: by_key[known] for known in near}.values())


def _mig(family: dict[str, Any]) -> Mig:
    profiles = (
        MigProfile(
            profile["name"],
            profile["instances"],
            profile["memory_eighths"],
            profile["reported_mib"] * _MIB,
        )
        for profile in family["profiles"]
    )
    return Mig(family["confidence"], family["source"], tuple(profiles))


def _find_slice(card_key: str, profile_name: str) -> Gpu:
    card = _gpus_by_key().get(card_key)
    slices = [
        (gpu, gpu.mig, profile)
        for gpu in ([card] if card else _near(card_key))
        if gpu.mig is not None
        for profile in gpu.mig.profiles
    ]
    asked = [each for each in slices if each[2].name == profile_name]
    if card is not None and asked:
        return _slice(*asked[0])
    names = tuple(f"{gpu.name} {profile.name}" for gpu, _, profile in asked or slices)
    raise UnknownGpuError(names[:_MATCHES_OFFERED])


def _slice(card: Gpu, mig: Mig, profile: MigProfile) -> Gpu:
    """The slice as the device that a process sees: its shares of memory and of compute."""
    compute = int(profile.name[0])
    all_compute = max(int(each.name[0]) for each in mig.profiles)
    return replace(
        card,
        name=f"{card.name} {profile.name}",
        aliases=(),
        marketing_gb=int(profile.name[:-2].split(".")[1]),
        reported_bytes=profile.reported_bytes,
        confidence=mig.confidence,
        source=mig.source,
        memory_bandwidth_bytes_per_second=(
            card.memory_bandwidth_bytes_per_second * profile.memory_eighths // 8
        ),
        bf16_flops=card.bf16_flops and card.bf16_flops * compute // all_compute,
        fp8_flops=card.fp8_flops and card.fp8_flops * compute // all_compute,
        interconnect="none: slices do not reach each other",
        gpus_per_node=card.gpus_per_node * profile.instances,
        mig=None,
    )
