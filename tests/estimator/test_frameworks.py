"""A framework stands in its room: nobody else asks which one it is."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from trainfit import estimator, resolve
from trainfit.estimator.assumptions import all_assumptions
from trainfit.estimator.frameworks.registry import framework_of
from trainfit.questions.estimate import plan_of
from trainfit.specs.framework import Framework, FrameworkName
from trainfit.specs.job import Job

PARTS = get_args(get_args(Framework)[0])
ASKS = re.compile(rf"isinstance\([^)]*\b(\w+Plan|{'|'.join(part.__name__ for part in PARTS)})\b")


@pytest.mark.parametrize("floor", [estimator, resolve], ids=["estimator", "resolve"])
def test_nobody_outside_asks_which_framework_runs_a_plan(floor: ModuleType) -> None:
    """A room is a folder with a module `framework`; the registry stands beside the rooms."""
    root = Path(floor.__path__[0])
    registries = {each.parent for each in root.rglob("registry.py")}
    rooms = {each.parent for each in root.rglob("framework.py")} - registries
    assert len(rooms) >= 2
    asking = [each for each in root.rglob("*.py") if ASKS.search(each.read_text())]
    outside = [each for each in asking if rooms.isdisjoint(each.parents)]
    assert [each.relative_to(root).as_posix() for each in outside] == []


def test_a_name_for_every_part_that_a_job_may_have() -> None:
    names = [get_args(part.model_fields["name"].annotation)[0] for part in PARTS]
    assert tuple(names) == get_args(FrameworkName)


@pytest.mark.parametrize("name", get_args(FrameworkName))
def test_what_a_framework_takes_for_granted_is_explained(name: str) -> None:
    asked = {"model": {"hf_id": "meta-llama/Llama-3.1-8B"}, "framework": {"name": name}}
    plan = plan_of(Job.model_validate(asked))
    assert framework_of(plan).assumptions(plan) <= all_assumptions().keys()
