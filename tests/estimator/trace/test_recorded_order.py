"""The requests of a step beside those of PyTorch itself, as the oracle recorded them: one allocator
reserves as much for either. What libraries ask for is in neither.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

import pytest

from tests.accuracy.test_corpus import DATA
from tests.accuracy.torch_steps import job_of
from trainfit.estimator import cublas
from trainfit.estimator.allocator import Allocate, CachingAllocator, Free, Request
from trainfit.estimator.frameworks.pytorch.framework import trace
from trainfit.estimator.memo import Memo
from trainfit.questions.estimate import plan_of
from trainfit.resolve.pytorch.plan import PytorchPlan

FILE = DATA / "torch_requests.jsonl.gz"
"""Of specs whose steps are in torch_steps, written by `python -m tests.oracle --requests`."""


def recorded() -> Iterator[dict[str, Any]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def asked(row: dict[str, Any]) -> Iterator[Request]:
    """What came, and by its number what went."""
    count = 0
    for each in row["requests"]:
        if each > 0:
            count += 1
            yield Allocate(count, each)
        else:
            yield Free(-each)


def reserved(requests: Iterable[Request]) -> int:
    allocator = CachingAllocator()
    allocator.serve(requests)
    return allocator.peak_reserved_bytes


def error(row: dict[str, Any]) -> float:
    plan = plan_of(job_of(row["spec"]))
    assert isinstance(plan, PytorchPlan)
    made = trace(plan, Memo())
    assert made is not None
    return reserved(each for part in made.steps for each in part) / reserved(asked(row)) - 1


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cublas, "workspaces", lambda _capability: 0)
        return {row["spec"]["name"]: error(row) for row in recorded()}


def test_as_much_is_reserved_as_for_what_pytorch_asks(errors: dict[str, float]) -> None:
    assert len(errors) >= 20
    beyond = {name: each for name, each in errors.items() if abs(each) > 0.02}
    assert len(beyond) <= 1, beyond
    assert all(abs(each) < 0.025 for each in beyond.values()), beyond
    assert median(map(abs, errors.values())) < 0.0065
