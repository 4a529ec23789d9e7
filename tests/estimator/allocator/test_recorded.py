"""The replay against the real allocator: requests that PyTorch's own library served.

`tests/data/README.md` tells how the answers came about.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainfit.estimator.allocator import (
    Addresses,
    CachingAllocator,
    Device,
    OutOfMemoryError,
    fragmentation,
    parse_settings,
)

Row = dict[str, Any]

FILE = Path(__file__).parents[2] / "data" / "allocator_requests.jsonl.gz"
ROWS: list[Row] = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


class Downward(Addresses):
    """Every segment below the one before, in whole multiples of 2 MiB, none handed out twice."""

    def __init__(self) -> None:
        super().__init__()
        self.next = 1 << 45

    def take(self, size: int) -> int:
        self.next -= -(-size // (2 << 20)) * (2 << 20)
        return self.next

    def give_back(self, address: int, size: int) -> None:
        pass


def name(row: Row) -> str:
    return f"{row['torch']}-{row['settings']}-{row['capacity_bytes'] >> 20}"


def allocator_of(row: Row) -> CachingAllocator:
    major, minor = row["torch"].split(".")
    settings = parse_settings(row["settings"], (int(major), int(minor)))
    if row["memory_fraction"]:
        settings = replace(settings, memory_fraction=row["memory_fraction"])
    return CachingAllocator(settings, Device(row["capacity_bytes"], addresses=Downward()))


def served(allocator: CachingAllocator, tensor: int, nbytes: int, stream: int) -> int | None:
    try:
        return allocator.allocate(tensor, nbytes, stream)
    except OutOfMemoryError:
        return None


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_every_request_is_served_as_pytorch_served_it(row: Row) -> None:
    allocator, answers = allocator_of(row), iter(row["addresses"])
    refused = 0
    for number, (kind, *arguments) in enumerate(row["requests"]):
        match kind:
            case "a":
                recorded = next(answers)
                assert served(allocator, *arguments) == recorded, f"request {number}"
                refused += recorded is None
            case "f":
                allocator.free(*arguments)
            case "r":
                allocator.record_stream(*arguments)
            case "d":
                allocator.reach(*arguments)
            case "e":
                allocator.empty_cache()
            case "b":
                allocator.begin_pool(arguments[0], {arguments[1]})
            case "E":
                allocator.end_pool(*arguments)
            case "x":
                allocator.release_pool(*arguments)
    made_of = fragmentation(allocator.segments())
    held = {
        "allocated": allocator.allocated_bytes,
        "peak_allocated": allocator.peak_allocated_bytes,
        "reserved": allocator.reserved_bytes,
        "peak_reserved": allocator.peak_reserved_bytes,
        "active": allocator.active_bytes,
        "requested": made_of.requested_bytes,
        "retries": allocator.retries,
        "ooms": refused,
    }
    if not allocator.settings.expandable_segments:
        held["inactive_split"] = made_of.split_bytes
    assert held == {figure: row["end"][figure] for figure in held}


def test_what_was_recorded_reaches_every_rule() -> None:
    ends = [row["end"] for row in ROWS]
    assert sum(end["retries"] for end in ends) > 100
    assert sum(end["ooms"] for end in ends) > 100
    assert {kind for row in ROWS for kind, *_ in row["requests"]} == set("afrdebEx")
