"""The Python interface, and the examples of its page."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trainfit
from trainfit import Job, QuestionError, TrainfitError, compare, estimate, fit_check
from trainfit.api.examples import LAUNCH_EXAMPLES, LLAMA_8B
from trainfit.architectures.config import ConfigError
from trainfit.catalog.gpus import UnknownGpuError
from trainfit.hub.errors import HubError
from trainfit.launch.errors import LaunchError
from trainfit.questions import fit_check as questions_fit_check
from trainfit.questions import pricing
from trainfit.questions.dimensions import UnknownModelError
from trainfit.questions.estimate import plan_of
from trainfit.questions.wire import to_json
from trainfit.resolve.findings import RefusedError

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_of_the_page_hold() -> None:
    listings = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    assert len(listings) == 6
    exec("\n".join(listings), {})


def test_a_job_and_its_document_are_one_question() -> None:
    assert estimate(Job.model_validate(LLAMA_8B)) == estimate(LLAMA_8B)


@pytest.mark.parametrize("answer", [estimate, fit_check])
def test_an_answer_is_the_document_that_http_sends(answer: Any) -> None:
    result = answer(LLAMA_8B)
    assert result.to_dict() == json.loads(to_json(result))


def test_a_launch_stands_in_the_place_of_a_job() -> None:
    answer = estimate({"launch": LAUNCH_EXAMPLES["megatron"]["value"]})
    assert answer.launch is not None


def test_what_is_wrong_is_told_with_a_pointer() -> None:
    with pytest.raises(QuestionError) as raised:
        estimate({**LLAMA_8B, "gpu": "H101"})
    assert [each.pointer for each in raised.value.errors] == ["/gpu"]
    assert pickle.loads(pickle.dumps(raised.value)).problem == raised.value.problem


def test_a_comparison_tells_what_is_wrong_in_its_place() -> None:
    beside = compare({"right": LLAMA_8B, "<wrong>": {}})
    assert [each.problem is None for each in beside.jobs] == [True, False]
    assert "&lt;wrong&gt;" in beside._repr_html_()
    with pytest.raises(QuestionError):
        compare({"one": LLAMA_8B}, baseline="another")


@pytest.mark.parametrize(
    "kind", [ConfigError, HubError, LaunchError, RefusedError, UnknownGpuError, UnknownModelError]
)
def test_errors_are_one_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, TrainfitError)


def test_a_fit_check_makes_the_plan_of_its_job_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Job] = []

    def counted(job: Job, find: Any) -> Any:
        planned.append(job)
        return plan_of(job, find)

    monkeypatch.setattr(pricing, "plan_of", counted)
    assert not hasattr(questions_fit_check, "plan_of")
    fit_check(LLAMA_8B, suggest=False)
    assert len(planned) == 1


def test_to_import_the_package_loads_nothing_of_it() -> None:
    script = (
        "import sys, trainfit\n"
        "loaded = [name for name in sys.modules if name.startswith('trainfit.')]\n"
        "assert not loaded and 'pydantic' not in sys.modules, loaded"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_name_is_there() -> None:
    assert set(trainfit.__all__) <= set(dir(trainfit))
    assert all(getattr(trainfit, name) for name in trainfit.__all__)
    with pytest.raises(AttributeError):
        _ = trainfit.answer
