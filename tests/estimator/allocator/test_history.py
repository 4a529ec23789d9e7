"""What an allocator tells of its history leads to what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.estimator.allocator.test_recorded import ROWS, Row, name
from trainfit.estimator.allocator import (
    Allocate,
    BeginPool,
    EmptyCache,
    EndPool,
    Free,
    History,
    OutOfMemoryError,
    Reach,
    RecordStream,
    ReleasePool,
    Request,
    TraceEntry,
    parse_settings,
)

LARGE = [row for row in ROWS if not row["memory_fraction"]][::4]


def asked(row: Row) -> Iterator[Request]:
    kinds: dict[str, Any] = {"a": Allocate, "f": Free, "r": RecordStream, "d": Reach}
    kinds |= {"e": EmptyCache, "E": EndPool, "x": ReleasePool}
    for kind, *arguments in row["requests"]:
        if kind == "b":
            yield BeginPool(arguments[0], frozenset(arguments[1:]))
        else:
            yield kinds[kind](*arguments)


class Card:
    """What a reader of the entries believes to be there."""

    def __init__(self) -> None:
        self.blocks: dict[int, int] = {}
        self.going: dict[int, int] = {}
        self.reserved = 0

    def take(self, entry: TraceEntry) -> None:
        match entry.action:
            case "alloc":
                assert entry.address not in self.blocks
                assert entry.address not in self.going
                self.blocks[entry.address] = entry.size
            case "free_requested":
                self.going[entry.address] = self.blocks.pop(entry.address)
            case "free_completed":
                assert self.going.pop(entry.address) == entry.size
            case "segment_alloc" | "segment_map":
                self.reserved += entry.size
            case "segment_free" | "segment_unmap":
                self.reserved -= entry.size


@pytest.mark.parametrize("row", LARGE, ids=name)
def test_entries_lead_to_what_is_held(row: Row) -> None:
    major, minor = row["torch"].split(".")
    settings = parse_settings(row["settings"], (int(major), int(minor)))
    history, card = History(settings, row["capacity_bytes"]), Card()
    refused: set[object] = set()
    for request in asked(row):
        if isinstance(request, Free | RecordStream) and request.tensor in refused:
            continue
        try:
            for entry in history.ask(request):
                card.take(entry)
        except OutOfMemoryError as error:
            refused.add(error.tensor)
        else:
            if isinstance(request, Allocate):
                refused.discard(request.tensor)
    allocator = history.allocator
    assert card.reserved == allocator.reserved_bytes
    held = {
        block.address: block.requested_bytes
        for segment in allocator.segments()
        for block in segment.blocks
        if block.state != "inactive"
    }
    assert {**card.blocks, **card.going} == held
