"""The gate: what it asks, what it answers, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.serving import running_service
from trainfit import __version__
from trainfit.api.api_keys import named, new_key
from trainfit.cli import main
from trainfit.questions.fit_check import check_fit
from trainfit.questions.wire import to_json
from trainfit.specs.policy import FitCheckRequest

LLAMA = {
    "model": {"hf_id": "meta-llama/Llama-3.1-8B"},
    "parallelism": {"num_gpus": 8, "tp": 2},
    "training": {"seq_length": 8192},
}
"""It needs some 55 to 68 GiB."""

GIB = 2**30
TIGHT = {"memory_bytes": 60 * GIB}
UNKNOWN = {"training": {"optimizer": {"name": "adafactor"}}}

OUTCOMES: dict[str, tuple[dict[str, Any], int]] = {
    "fits": ({"gpu": "H100-80GB"}, 0),
    "does_not_fit": ({"gpu": "A100-40GB"}, 1),
    "invalid": ({"gpu": "H100-80GB", "parallelism": {"tp": 3}}, 2),
    "tight": ({"gpu": TIGHT}, 0),
    "unknown": ({"gpu": "H100-80GB", **UNKNOWN}, 4),
    "unavailable": ({"gpu": "H100-80GB", "model": {"hf_id": "no/such-model"}}, 5),
}
"""Changes to the job above with the exit code that they lead to."""


def written(folder: Path, *jobs: dict[str, Any], name: str = "jobs.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"jobs": [{**LLAMA, **job} for job in jobs]}, indent=2), "utf-8")
    return path


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_its_exit_code(run: Run, tmp_path: Path, outcome: str) -> None:
    job, code = OUTCOMES[outcome]
    answered = run(f"fit-check {written(tmp_path, job)} --format json --no-suggest")
    assert ((answered.code or 0), answered.err) == (code, "")
    report = json.loads(answered.out)
    assert report["exit_code"] == code
    (check,) = report["checks"]
    assert (check["outcome"], check["failed"]) == (outcome, code != 0)
    assert (check["fit_check"] is None) == (outcome in ("invalid", "unavailable"))
    assert (check["problem"] is None) != (check["fit_check"] is None)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["fits", "tight", "unknown", "unavailable", "invalid", "does_not_fit"], 1),
        (["fits", "tight", "unknown", "unavailable", "invalid"], 2),
        (["fits", "tight", "unknown", "unavailable"], 5),
        (["fits", "tight", "unknown"], 4),
        (["fits", "tight"], 3),
    ],
)
def test_the_worst_of_several_files_decides(
    run: Run, tmp_path: Path, outcomes: list[str], code: int
) -> None:
    files = [str(written(tmp_path, OUTCOMES[each][0], name=f"{each}.json")) for each in outcomes]
    line = f"fit-check {' '.join(files)} --fail-on tight --no-suggest --format json"
    answered = run(line)
    assert answered.code == code
    assert [each["outcome"] for each in json.loads(answered.out)["checks"]] == outcomes


def test_a_wrong_file_does_not_spoil_the_others(run: Run, tmp_path: Path) -> None:
    good = written(tmp_path, OUTCOMES["fits"][0])
    answered = run(f"fit-check {tmp_path}/nowhere.yaml {good} --format json")
    assert answered.code == 2
    first, second = json.loads(answered.out)["checks"]
    assert first["problem"]["detail"] == "No such file or directory"
    assert second["outcome"] == "fits"


def test_on_error_opens_the_gate_for_what_was_not_checked_only(run: Run, tmp_path: Path) -> None:
    unavailable = written(tmp_path, OUTCOMES["unavailable"][0])
    assert not run(f"fit-check {unavailable} --on-error pass").code
    both = written(tmp_path, OUTCOMES["unavailable"][0], OUTCOMES["invalid"][0])
    assert run(f"fit-check {both} --on-error pass").code == 2


def test_a_failure_of_the_estimator_is_no_verdict(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("trainfit.cli.gate.asking.check_fit", fail)
    answered = run(f"fit-check {written(tmp_path, {'gpu': 'B200'})}")
    assert answered.code == 5
    assert "the estimator failed with ZeroDivisionError" in answered.out
    assert "Traceback" in answered.err


@pytest.mark.parametrize(("verdict", "code"), [("tight", 3), ("unknown", 4)])
def test_what_is_allowed_passes_and_says_why(
    run: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], verdict: str, code: int
) -> None:
    path = str(written(tmp_path, OUTCOMES[verdict][0]))
    line = ["fit-check", path, "--fail-on", "tight", "--no-suggest"]
    assert run(" ".join(line)).code == code
    main([*line, "--allow", f"{verdict}=measured on one node"])
    out, _ = capfd.readouterr()
    assert "allowed: measured on one node" in out


def test_the_cards_of_the_command_line_take_the_place_of_the_jobs_own(
    run: Run, tmp_path: Path
) -> None:
    path = written(tmp_path, {"gpu": "B200"}, {})
    out = run(f"fit-check {path} --gpu h100 --gpu a100-40gb --format json").out
    checks = json.loads(out)["checks"]
    assert [(each["name"], each["gpu"]) for each in checks] == [
        ("jobs[0]", "h100"),
        ("jobs[0]", "a100-40gb"),
        ("jobs[1]", "h100"),
        ("jobs[1]", "a100-40gb"),
    ]
    without = run(f"fit-check {path}")
    assert without.code == 2
    assert "--gpu: is needed and missing; --gpu names one for every job" in without.out


@pytest.mark.parametrize("option", ["--headroom-ratio 0.2", f"--headroom-bytes {16 * GIB}"])
def test_headroom_is_kept_free(run: Run, tmp_path: Path, option: str) -> None:
    path = written(tmp_path, {"gpu": "H100-80GB", "policy": {"headroom_bytes": GIB}})
    assert not run(f"fit-check {path} --fail-on tight").code
    answered = run(f"fit-check {path} --fail-on tight {option}")
    assert answered.code == 3
    assert "to stay free" in answered.out


def test_suggestions_are_told_unless_they_are_not_wanted(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, {"gpu": "A100-40GB"})
    assert "- use --" in run(f"fit-check {path}").out
    assert "- set /" not in run(f"fit-check {path} --no-suggest").out


def test_the_largest_values_that_fit_are_told_where_asked_for(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, {"gpu": "B200", "limits": {"micro_batch_size": True}})
    limits = json.loads(run(f"fit-check {path} --format json").out)["checks"][0]["fit_check"][
        "limits"
    ]
    told = f"- the largest --micro-batch-size that fits is {limits['micro_batch_size']}\n"
    assert told in run(f"fit-check {path}").out


def test_json_has_what_http_answers(run: Run, tmp_path: Path) -> None:
    job = {**LLAMA, "gpu": "A100-40GB"}
    out = run(f"fit-check {written(tmp_path, job)} --format json").out
    answer = to_json(check_fit(FitCheckRequest.model_validate(job)))
    assert json.loads(out)["checks"][0]["fit_check"] == json.loads(answer)


def test_a_service_is_asked_and_answers_as_the_terminal_does(run: Run, tmp_path: Path) -> None:
    jobs = [job for job, _ in OUTCOMES.values()]
    line = f"fit-check {written(tmp_path, *jobs)} --format json"
    here = run(line)
    with running_service() as service:
        asked = run(f"{line} --server {service.url}/")
    assert asked.code == here.code == 1
    for mine, theirs in zip(
        json.loads(here.out)["checks"], json.loads(asked.out)["checks"], strict=True
    ):
        if mine["problem"] is not None:
            mine["problem"]["instance"] = theirs["problem"]["instance"]
        assert mine == theirs


def test_a_service_that_wants_a_key_gets_that_of_the_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {"gpu": "B200"})
    key = new_key()
    with running_service(TRAINFIT_API_KEYS=str(named("ci", key))) as service:
        line = f"fit-check {path} --server {service.url}"
        for given in ("", new_key(), "é"):
            monkeypatch.setenv("TRAINFIT_API_KEY", given)
            refused = run(line)
            assert refused.code == 5
            assert not given or given not in refused.out + refused.err
        monkeypatch.setenv("TRAINFIT_API_KEY", f"{key}\n")
        assert run(line).code == 0


@contextmanager
def service_that_answers(status: int, body: str) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


BUSY = {"type": "/problems/overloaded", "title": "busy", "detail": "busy", "errors": []}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, "{}", "answered 200 in words of its own"),
        (502, "<html>", "answered 502 in words of its own"),
        (302, "", "answered 302 in words of its own"),
        (503, json.dumps({**BUSY, "status": 503, "instance": None}), "busy"),
        (429, json.dumps({**BUSY, "status": 429, "instance": None}), "busy"),
    ],
)
def test_a_service_that_is_not_up_to_it(
    run: Run, tmp_path: Path, status: int, body: str, message: str
) -> None:
    path = written(tmp_path, {"gpu": "B200"})
    with service_that_answers(status, body) as url:
        answered = run(f"fit-check {path} --server {url}")
        opened = run(f"fit-check {path} --server {url} --on-error pass")
    assert answered.code == 5
    assert message in answered.out
    assert not opened.code


def test_a_service_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path, {"gpu": "B200"})
    answered = run(f"fit-check {path} --server http://127.0.0.1:1")
    assert answered.code == 5
    assert "http://127.0.0.1:1/v1/fit-check: " in answered.out


def test_a_version_can_be_pinned(run: Run, tmp_path: Path) -> None:
    pinned = {"gpu": "B200", "estimator_version": __version__}
    assert not run(f"fit-check {written(tmp_path, pinned)}").code
    assert run(f"fit-check {written(tmp_path, {**pinned, 'estimator_version': '0'})}").code == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "nowhere.yaml:1"),
        ("--allow tight", "trainfit: --allow: must be tight=REASON or unknown=REASON"),
        ("--allow fits=yes", "trainfit: --allow: must be tight=REASON or unknown=REASON"),
        ("--server localhost:8080", "trainfit: --server: must be an http or https URL"),
        ("--output x.xml", "trainfit: --output: goes with another --format"),
        ("--output /nowhere/x.xml --format junit", "trainfit: --output: /nowhere/x.xml: No such"),
        ("--fail-on always", "trainfit: Invalid value"),
    ],
)
def test_a_command_that_is_wrong(run: Run, options: str, message: str) -> None:
    answered = run(f"fit-check nowhere.yaml {options}")
    assert answered.code == 2
    assert message in answered.out + answered.err


def test_a_gate_without_files_is_a_mistake(run: Run) -> None:
    assert run("fit-check").code == 2
