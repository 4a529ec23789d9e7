"""What an estimate costs, as calls of the package's functions: a count that no other work moves."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests import counting
from tests.layouts import deepseek_v3
from trainfit.api.examples import LLAMA_8B, LORA_8B, TORCHTITAN_8B
from trainfit.estimator.allocator import (
    Allocate,
    CachingAllocator,
    Free,
    RecordStream,
    Request,
)
from trainfit.estimator.estimate import estimate
from trainfit.estimator.memo import Memo
from trainfit.estimator.needs import needs
from trainfit.questions.estimate import plan_of
from trainfit.resolve.plan import Plan
from trainfit.specs.job import Job

WORSE = 1.25
"""A quarter more than when the count was written down."""
LAYOUTS = list(deepseek_v3(16, 2))
JOBS = {"Megatron": LLAMA_8B, "torchtitan": TORCHTITAN_8B, "transformers": LORA_8B}


def calls(work: Callable[[], object]) -> int:
    """Of functions of the package. Comprehensions, which releases of Python run in frames of their
    own or not, count for none.
    """

    def of_package(frame: FrameType, event: str) -> bool:
        named = event == "call" and not frame.f_code.co_name.startswith("<")
        return named and str(frame.f_globals.get("__name__")).startswith("trainfit.")

    return counting.calls(work, of_package)


def plan(job: dict[str, Any]) -> Plan:
    return plan_of(Job.model_validate(job))


def write_down(asked: Plan) -> None:
    """Whatever is loaded but once, and written down when it is asked for twice."""
    estimate(asked, replay=False)
    estimate(asked, replay=False)


@pytest.mark.parametrize(
    ("framework", "counted"), [("Megatron", 605), ("torchtitan", 1064), ("transformers", 1265)]
)
def test_an_estimate_of_which_nothing_is_remembered(framework: str, counted: int) -> None:
    asked = plan(JOBS[framework])
    write_down(asked)
    assert calls(lambda: estimate(asked, replay=False)) < WORSE * counted


def test_an_estimate_of_many_stages() -> None:
    asked = plan(LAYOUTS[0])
    write_down(asked)
    assert calls(lambda: estimate(asked, replay=False)) < WORSE * 1628


def test_what_decides_of_many_layouts() -> None:
    """Layouts have most of an estimate in common."""
    plans, memo = [plan(job) for job in LAYOUTS], Memo()

    def decide() -> None:
        for each in plans:
            needs(each, memo, replay=False)

    assert calls(decide) < WORSE * 47_066
    assert calls(decide) < WORSE * 4_160


NEIGHBOURS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("training", {"global_batch_size": 65_536}, 71),
    ("parallelism", {"num_gpus": 4096}, 499),
    ("training", {"micro_batch_size": 4}, 787),
)


@pytest.mark.parametrize(("part", "changed", "counted"), NEIGHBOURS)
def test_what_decides_of_a_neighbour_of_a_known_job(
    part: str, changed: dict[str, Any], counted: int
) -> None:
    """More micro-batches than fill the pipeline change nothing; more ranks how states are shared;
    larger micro-batches what every layer keeps.
    """
    job = LAYOUTS[0]
    neighbour, memo = plan(job | {part: job[part] | changed}), Memo()
    write_down(neighbour)
    needs(plan(job), memo, replay=False)
    assert calls(lambda: needs(neighbour, memo, replay=False)) < WORSE * counted


def test_a_replay() -> None:
    asked = plan(LORA_8B)
    estimate(asked)
    assert calls(lambda: estimate(asked)) < WORSE * 272_745


def test_requests_look_for_no_frees_that_still_wait() -> None:
    """Gradients that are reduced beside backward are given back where their stream is done."""

    def served(*first: Request) -> int:
        allocator = CachingAllocator()
        allocator.serve((Allocate("reduced", 1 << 20), *first))
        names = range(1000)
        each = [pair for name in names for pair in (Allocate(name, 1 << 20), Free(name))]
        return calls(lambda: allocator.serve(each))

    assert served(RecordStream("reduced", 1), Free("reduced")) <= served()
