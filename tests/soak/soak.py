"""One soak: a service of its own, load, and what became of its memory meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import started_service
from tests.soak.flapping import MODELS, flapping_hub
from tests.soak.load import Load, Outcomes

WARM_UP = 0.3
"""Share of the time after which memory must not grow: caches are full and code is loaded."""

MAX_GROWTH = 1.10
"""Resident memory at the end, as a multiple of that after the warm-up."""

MORE_FILES = 8
"""Open files at last, beyond those that were open under load."""

PATIENCE_SECONDS = 60.0
"""Whoever watches waits as long for what is held."""

REST_SECONDS = 10.0
"""What is still on its way when the load ends has left by then."""

SETTINGS = {
    "TRAINFIT_WORKER_PROCESSES": "2",
    "TRAINFIT_WORKER_CPU_SECONDS": "2",
    "TRAINFIT_BODY_TIMEOUT_SECONDS": "0.5",
    "TRAINFIT_REQUEST_TIMEOUT_SECONDS": "5",
    # Full within the warm-up.
    "TRAINFIT_ANSWER_CACHE_BYTES": "2000000",
    "HF_HUB_OFFLINE": "0",
    "TRAINFIT_HUB_TIMEOUT_SECONDS": "1",
    "TRAINFIT_HUB_CONNECT_TIMEOUT_SECONDS": "0.5",
    "TRAINFIT_HUB_TTL_SECONDS": "1",
    "TRAINFIT_CACHE_DIR": "",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process holds at one time."""

    resident_bytes: float
    open_files: float
    in_flight: float


@dataclass(frozen=True, slots=True)
class Soak:
    """What was answered, and what the process held, once a while and at last without load."""

    outcomes: Outcomes
    samples: Sequence[Sample]
    at_rest: Sample

    @property
    def warm_bytes(self) -> float:
        """Resident memory after the warm-up: the median of the third that follows it."""
        return median(each.resident_bytes for each in self._warm)

    @property
    def most_files(self) -> float:
        """As many may be open at last. The first sample may come before any connection."""
        return median(each.open_files for each in self._warm) + MORE_FILES

    @property
    def _warm(self) -> Sequence[Sample]:
        begin = int(len(self.samples) * WARM_UP)
        return self.samples[begin : 2 * begin]

    @property
    def final_bytes(self) -> float:
        """Resident memory in the last third."""
        last = len(self.samples) // 3
        return median(each.resident_bytes for each in self.samples[-last:])

    @property
    def faults(self) -> list[str]:
        """Everything that should not have been."""
        found = list(self.outcomes.faults)
        if self.final_bytes > MAX_GROWTH * self.warm_bytes:
            found.append(f"memory grew from {self.warm_bytes:.0f} to {self.final_bytes:.0f} bytes")
        if self.at_rest.in_flight:
            found.append(f"{self.at_rest.in_flight:.0f} requests never left")
        if self.at_rest.open_files > self.most_files:
            found.append(f"{self.at_rest.open_files:.0f} files stayed open")
        return found


def soak(seconds: float) -> Soak:
    """Load a service for so long, which asks a Hub that is not always well."""
    with (
        flapping_hub() as hub,
        started_service(Path(os.devnull), **SETTINGS, HF_ENDPOINT=hub.url) as service,
    ):
        load = Load(service.url, MODELS)
        samples = asyncio.run(_watched(load, seconds))
        loaded = Soak(load.outcomes, samples, samples[-1])
        return replace(loaded, at_rest=_at_rest(service.url, loaded.most_files))


async def _watched(load: Load, seconds: float) -> list[Sample]:
    samples = []
    async with httpx.AsyncClient(base_url=load.url, timeout=PATIENCE_SECONDS) as client:
        loaded = asyncio.create_task(load.run(seconds))
        while not loaded.done():
            samples.append(_sample((await client.get("/metrics")).text))
            await asyncio.sleep(seconds / 100)
        await loaded
    return samples


def _at_rest(url: str, most_files: float) -> Sample:
    """What is held once everybody has left, or would have."""
    deadline = time.monotonic() + REST_SECONDS
    while True:
        sample = _sample(httpx.get(f"{url}/metrics", timeout=PATIENCE_SECONDS).text)
        left = not sample.in_flight and sample.open_files <= most_files
        if left or time.monotonic() > deadline:
            return sample
        time.sleep(0.1)


def _sample(exposition: str) -> Sample:
    values = {
        each.name: each.value
        for family in text_string_to_metric_families(exposition)
        for each in family.samples
    }
    return Sample(
        values["process_resident_memory_bytes"],
        values["process_open_fds"],
        values["trainfit_http_requests_in_flight"],
    )
