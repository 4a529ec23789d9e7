"""`trainfit compare`: jobs of files side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_fit_check import LLAMA, OUTCOMES, service_that_answers, written
from tests.serving import running_service

SMALLER = {"name": "smaller", "parallelism": {"num_gpus": 8, "tp": 4}, "gpu": "H100-80GB"}
BASE = {"name": "base", "gpu": "H100-80GB"}


def test_jobs_side_by_side(run: Run, tmp_path: Path) -> None:
    answered = run(f"compare {written(tmp_path, BASE, SMALLER)}")
    assert not answered.code
    rows = {line.split()[0]: line for line in answered.out.splitlines() if "fits" in line}
    assert list(rows) == ["base", "smaller"]
    assert re.search(r" -\d+\.\d +fits +base$", rows["smaller"])
    assert "differences are to base" in answered.out
    assert "\x1b" not in answered.out


def test_another_baseline_and_another_card(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, BASE, SMALLER)
    answered = run(f"compare {path} --baseline smaller --gpu A100-40GB")
    assert re.search(r"base .* \+\d+\.\d +does not fit", answered.out)
    refused = run(f"compare {path} --baseline nobody")
    assert refused.code == 2
    assert "there are base, smaller" in refused.err


def test_one_that_is_refused_spoils_no_other(run: Run, tmp_path: Path) -> None:
    wrong = {**OUTCOMES["invalid"][0], "name": "wrong"}
    answered = run(f"compare {written(tmp_path, wrong, BASE)}")
    assert answered.code == 2
    assert re.search(r"wrong +refused", answered.out)
    assert re.search(r"base .* fits", answered.out)
    assert "--tp: " in answered.out


def test_json_is_what_http_answers_and_names_are_made_distinct(run: Run, tmp_path: Path) -> None:
    policy = {"gpu": "B200", "policy": {"headroom_ratio": 0.1}}
    one, other = written(tmp_path, policy), tmp_path / "job.yaml"
    other.write_text(json.dumps({"name": "jobs", **LLAMA}), "utf-8")
    compared = json.loads(run(f"compare {one} {other} {other} --gpu b200 --json").out)
    assert [each["id"] for each in compared["jobs"]] == ["jobs", "jobs (2)", "jobs (3)"]
    assert [each["comparison"]["difference_bytes"] for each in compared["jobs"]] == [0, 0, 0]


def test_a_service_is_asked_and_answers_as_the_terminal_does(run: Run, tmp_path: Path) -> None:
    wrong = {**OUTCOMES["invalid"][0], "name": "wrong"}
    line = f"compare {written(tmp_path, BASE, SMALLER, wrong)} --baseline smaller"
    with running_service() as service:
        for form in ("", "--json"):
            here, asked = run(f"{line} {form}"), run(f"{line} {form} --server {service.url}/")
            assert asked == here
            assert asked.code == 2


BUSY = {"type": "/problems/overloaded", "title": "busy", "detail": "busy", "errors": []}


@pytest.mark.parametrize(
    ("status", "body", "message", "code"),
    [
        (200, "{}", "/v1/compare: answered 200 in words of its own", 5),
        (302, "", "/v1/compare: answered 302 in words of its own", 5),
        (429, json.dumps({**BUSY, "status": 429, "instance": None}), "busy", 5),
        (413, json.dumps({**BUSY, "status": 413, "instance": None}), "busy", 2),
    ],
)
def test_a_service_that_is_not_up_to_it(
    run: Run, tmp_path: Path, status: int, body: str, message: str, code: int
) -> None:
    with service_that_answers(status, body) as url:
        line = f"compare {written(tmp_path, BASE)} --server {url}"
        said, told = run(line), run(f"{line} --json")
    assert said.code == told.code == code
    assert said.out == told.out == ""
    assert message in said.err
    assert message in json.loads(told.err)["detail"]


def test_a_service_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, BASE)
    assert run(f"compare {path} --server http://127.0.0.1:1").code == 5
    refused = run(f"compare {path} --server 127.0.0.1:1")
    assert refused.code == 2
    assert "--server: must be an http or https URL" in refused.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs: []", "job.yaml:1: holds no job"),
        (json.dumps([{}] * 65), "there are 65 jobs; at most 64 go"),
    ],
)
def test_what_cannot_be_compared(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, "utf-8")
    answered = run(f"compare {path}")
    assert answered.code == 2
    assert message in answered.err


def test_a_change_is_told_for_a_pull_request(run: Run, tmp_path: Path) -> None:
    """The greatest difference first, with its stage, and what becomes of the verdict."""
    longer = {**BASE, "name": "longer", "training": {"seq_length": 32768}}
    told = run(f"compare {written(tmp_path, BASE, longer, SMALLER)} --markdown").out
    assert told.startswith("### GPU memory\n")
    assert re.search(
        r"\*\*longer\*\*: this change: \+\d+\.\d GiB at stage 0; fits becomes does not fit", told
    )
    assert re.search(r"\*\*smaller\*\*: this change: -\d+\.\d GiB at stage 0; fits\n", told)
    assert re.search(r"\| 0 \| \+\d+\.\d \| activations \+\d+\.\d \| \d+\.\d \(", told)
    wrong = {**OUTCOMES["invalid"][0], "name": "wrong"}
    refused = run(f"compare {written(tmp_path, BASE, wrong)} --markdown")
    assert "**wrong**: not compared: " in refused.out
    same = run(f"compare {written(tmp_path, BASE, {**BASE, 'name': 'same'})} --markdown")
    assert "**same**: this change: no other memory; fits" in same.out
