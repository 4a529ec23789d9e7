"""Public launch files of Hugging Face's tools, one after the other: the job and the account."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.launch.launches import DATA, launch_of, read
from tests.launch.mutations import check_every_key
from trainfit.documents.document import parse_documents
from trainfit.launch.settings import settings_of
from trainfit.specs.job import Job
from trainfit.specs.launch import Launch

FORMATS = ("transformers", "accelerate", "deepspeed", "llama_factory", "axolotl")
Case = dict[str, Any]


def cases() -> list[Case]:
    return [
        case
        for name in FORMATS
        for case in yaml.load((DATA / name / "cases.yaml").read_text("utf-8"), yaml.CSafeLoader)
    ]


def launch(case: Case) -> Launch:
    return launch_of(
        {path: (DATA / path).read_text(encoding="utf-8") for path in case["files"]},
        case.get("argv"),
        overrides=case.get("overrides", {}),
        framework_version=case.get("version"),
    )


every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])


@every_case
def test_it_becomes_this_job(case: Case) -> None:
    found = read(launch(case))
    named = [pointer for pointer in case["fields"] if pointer.startswith("/training/precision")]
    fields = {
        pointer: value
        for pointer, value in found.fields().items()
        if pointer != "/model" and not (named and pointer.startswith("/training/precision/"))
    }
    expected = dict(case["fields"])
    model = {name: expected.pop(f"/model/{name}", None) for name in ("hf_id", "revision")}
    assert {name: found.field(f"/model/{name}") for name in model} == model
    if isinstance(expected.get("/training/precision"), dict):
        assert found.field("/training/precision") == expected.pop("/training/precision")
    assert fields == expected
    assert sorted(found.defaulted) == case["defaulted"]
    assert sorted(found.unsupported) == case["unsupported"]
    assert sorted(found.bounded) == case.get("bounded", [])
    Job.model_validate(found.job)


@every_case
def test_every_key_is_in_one_list(case: Case) -> None:
    found = read(launch(case))
    lists = [found.recognised, found.irrelevant, found.unsupported, found.bounded]
    for path in case["files"]:
        text = (DATA / path).read_text(encoding="utf-8")
        (document,) = parse_documents(path[path.rindex(".") :], text)
        for key in settings_of(document, path):
            assert [key in each for each in lists].count(True) == 1, key


@every_case
def test_no_key_that_decides_goes_unnoticed(case: Case) -> None:
    check_every_key(launch(case))


def test_there_are_enough_of_each_format() -> None:
    for name in FORMATS:
        assert len([case for case in cases() if case["format"] == name]) >= 8
