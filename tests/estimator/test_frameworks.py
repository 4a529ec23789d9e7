"""A framework stands in its room: nothing else of the estimator asks which one it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainfit import estimator
from trainfit.estimator.assumptions import ASSUMPTIONS
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.questions.estimate import plan_of
from trainfit.specs.job import Job

ROOT = Path(estimator.__path__[0])
ROOMS = ("frameworks/megatron", "frameworks/pytorch", "frameworks/registry.py")
ASKS = re.compile(r"isinstance\([^)]*\b(MegatronPlan|PytorchPlan|Megatron|Torchtitan|Transformers)")


def test_nobody_outside_asks_which_framework_runs_a_plan() -> None:
    asking = [
        each.relative_to(ROOT).as_posix()
        for each in ROOT.rglob("*.py")
        if ASKS.search(each.read_text())
    ]
    assert [each for each in asking if not each.startswith(ROOMS)] == []


@pytest.mark.parametrize("name", ["megatron", "torchtitan", "transformers"])
def test_what_a_framework_takes_for_granted_is_explained(name: str) -> None:
    plan = plan_of(
        Job.model_validate({"model": {"hf_id": "Qwen/Qwen3-30B-A3B"}, "framework": {"name": name}})
    )
    assert framework_of(plan).assumptions(plan) <= ASSUMPTIONS.keys()
