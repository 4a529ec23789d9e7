"""A Hub that is well at one time and not at another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from tests.hub.fake_hub import (
    COMMIT,
    OTHER_COMMIT,
    Answer,
    FakeHub,
    Request,
    Writer,
    gated,
    model,
    repo_not_found,
    reset,
    running_hub,
    says,
    slow_headers,
    truncated,
)

MODELS = tuple(f"acme/model-{number}" for number in range(20))


@contextmanager
def flapping_hub() -> Iterator[FakeHub]:
    """A Hub that knows MODELS, and half of the time answers something else about them."""
    with running_hub() as hub:
        hub.models |= dict.fromkeys(MODELS, _flapping(random.Random(1)))
        yield hub


def _flapping(chance: random.Random) -> Answer:
    well = (model(), model(commit=COMMIT), model(commit=OTHER_COMMIT))
    unwell = (
        says(500),
        says(503, retry_after="1"),
        says(429, ratelimit='"resolvers";r=0;t=1'),
        says(200, b"<html>"),
        gated,
        repo_not_found,
        reset,
        truncated,
        slow_headers(0.3),
        slow_headers(),
    )

    async def answer(request: Request, writer: Writer) -> None:
        await chance.choice((*well, chance.choice(unwell)))(request, writer)

    return answer
