"""Every request of a run to PyTorch's allocator, in the schema of `corpus/allocator_traces`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import torch

# What a recording names a request that was freed, by release.
FREED = {"free_completed": "free", "free": "free"}
KEPT = {"alloc", "free", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"}


def record() -> None:
    """Begin, before the process has asked for anything."""
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=4_000_000)


def write(path: Path) -> None:
    """What was asked for since, and what is held now."""
    held = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(None)
    events = []
    for each in held["device_traces"][0]:
        action = FREED.get(each["action"], each["action"])
        if action in KEPT:
            events.append([action, each.get("addr", 0), each["size"], each["stream"]])
    end = {"reserved": torch.cuda.memory_reserved(), "allocated": torch.cuda.memory_allocated()}
    recording = {"segments": [], "live": [], "events": events, "end": end}
    with gzip.open(path, "wt", compresslevel=6) as file:
        json.dump(recording, file, separators=(",", ":"))
