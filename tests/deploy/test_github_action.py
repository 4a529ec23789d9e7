"""The action for GitHub, run as a runner does, beside an API of GitHub's on a real socket."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.hosts import CI, FITS, TOO_LONG, loaded, shell

TOKEN = "a-token-of-the-job"
ACTION: dict[str, Any] = loaded(CI / "github" / "action.yml")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of the action left behind."""

    code: int
    log: str
    outputs: str
    summary: str


def run_action(
    folder: Path, event: Mapping[str, str] | None = None, api: str = "", /, **inputs: str
) -> Ran:
    """Every step, as a runner does: its shell, its variables, its command files."""
    inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
    known = ACTION["inputs"]
    assert set(inputs) <= set(known)
    values = {
        **{f"inputs.{name}": about.get("default", "") for name, about in known.items()},
        **{f"inputs.{name}": value for name, value in inputs.items()},
        **{f"github.event.pull_request.{name}": text for name, text in (event or {}).items()},
        "github.token": TOKEN,
    }
    temporary = folder.parent / "runner"
    temporary.mkdir(exist_ok=True)
    output, summary = temporary / "output", temporary / "summary"
    for path in (output, summary):
        path.write_text("", "utf-8")
    log = ""
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        script = temporary / "step.sh"
        script.write_text(step["run"], "utf-8")
        done = shell(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            folder,
            GITHUB_OUTPUT=str(output),
            GITHUB_STEP_SUMMARY=str(summary),
            GITHUB_ACTION_PATH=str(CI / "github"),
            GITHUB_API_URL=api,
            GITHUB_REPOSITORY="them/theirs",
            GITHUB_WORKFLOW="GPU memory",
            GITHUB_JOB="fit-check",
            RUNNER_TEMP=str(temporary),
            **{name: evaluated(text, values) for name, text in step.get("env", {}).items()},
        )
        log += done.stdout + done.stderr
        for line in output.read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step.get('id')}.outputs.{name}"] = value
        if done.returncode:
            break
    return Ran(done.returncode, log, output.read_text("utf-8"), summary.read_text("utf-8"))


def evaluated(text: str, values: Mapping[str, str]) -> str:
    """An expression of the workflow, and those within what it stands for."""
    while "${{" in text:
        text = re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values.get(found[1], ""), text)
    return text


def test_the_action_annotates_sums_up_and_fails(repository: Path) -> None:
    ran = run_action(repository, files="jobs/**/*.yaml", sarif="fit.sarif")
    assert ran.code == 1
    assert f"::error file=jobs/long/{TOO_LONG},line=" in ran.log
    assert ran.outputs == "exit-code=1\n"
    assert "| ✅ fits |" in ran.summary
    assert "❌ does not fit" in ran.summary
    (result,) = json.loads(repository.joinpath("fit.sarif").read_text())["runs"][0]["results"]
    line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    job = repository.joinpath("jobs", "long", TOO_LONG).read_text().splitlines()
    assert "seq_length" in job[line - 1]
    assert f"{TOO_LONG},line={line},title=llama-8b-long on H100" in ran.log


def test_the_program_is_asked_once_for_all_reports(repository: Path, tmp_path: Path) -> None:
    counted = tmp_path / "bin"
    counted.mkdir()
    log = tmp_path / "asked"
    counted.joinpath("trainfit").write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    counted.joinpath("trainfit").chmod(0o755)
    script = CI / "github" / "check.sh"
    given = dict.fromkeys(ACTION["runs"]["steps"][1]["env"], "")
    shell(
        ["bash", str(script)],
        repository,
        **{**given, "FILES": "jobs/*.yaml", "SARIF": "fit.sarif"},
        PATH=f"{counted}:{os.defpath}",
        GITHUB_OUTPUT=str(tmp_path / "output"),
    )
    (asked,) = log.read_text().splitlines()
    assert "--format github" in asked
    assert "--report=sarif=fit.sarif" in asked


def test_the_action_passes_its_inputs_on(repository: Path) -> None:
    files = f"jobs/{FITS}"
    assert run_action(repository, files=files).code == 0
    assert run_action(repository, files=files, headroom_ratio="0.3").code == 0
    tight = {"files": files, "headroom_ratio": "0.3", "fail_on": "tight"}
    assert run_action(repository, **tight).code == 3
    assert run_action(repository, **tight, allow="tight=seen to run, a week long").code == 0
    cards = run_action(repository, files=files, gpu="B200\nA100-40GB")
    assert cards.code == 1
    assert "llama-8b on A100-40GB" in cards.log
    nobody = {"files": files, "server": "http://127.0.0.1:1"}
    assert run_action(repository, **nobody).code == 5
    assert run_action(repository, **nobody, on_error="pass").code == 0


LAUNCH = """torchrun --nproc_per_node 8 pretrain_gpt.py "$@" --num-layers 32 --hidden-size 4096 \\
  --num-attention-heads 32 --seq-length $LENGTH --max-position-embeddings 65536 --bf16 \\
  --micro-batch-size 1 --vocab-size 32000 --some-key-of-our-own 3
"""


def test_the_action_says_of_a_launch_what_its_surroundings_would(repository: Path) -> None:
    repository.joinpath("train.sh").write_text(LAUNCH)
    about = {
        "files": "train.sh",
        "gpu": "H100-80GB",
        "argv": "--tensor-model-parallel-size 8",
        "env": "LENGTH=4096\nNOTE=two words",
        "launch_format": "megatron",
    }
    assert run_action(repository, **about).code == 4
    # One key, not the files of the folder.
    assert run_action(repository, **about, accept_unsupported="*").code == 0
    about["env"] = "LENGTH=65536"
    assert run_action(repository, **about, accept_unsupported="--some-key-of-our-own").code == 1


def test_the_action_looks_up_on_the_hub_where_it_may(repository: Path) -> None:
    job = repository / "jobs" / FITS
    job.write_text(job.read_text().replace("meta-llama/Llama-3.1-8B", "nobody/has-this"))
    ran = run_action(repository, files=f"jobs/{FITS}", online="true", server="http://127.0.0.1:1")
    assert "--online" in ran.log


def test_the_action_runs_no_text_of_its_inputs(repository: Path) -> None:
    assert not any("${{" in step["run"] for step in ACTION["runs"]["steps"])
    hostile = "$(touch pwned) `touch pwned`;touch pwned"
    for name in ("gpu", "argv", "env", "allow", "launch_format", "accept_unsupported"):
        assert run_action(repository, files="jobs/*.yaml", **{name: hostile}).code != 1
    assert not repository.joinpath("pwned").exists()


def test_an_action_that_finds_no_files_says_so(repository: Path) -> None:
    ran = run_action(repository, files="nowhere/*.yaml")
    assert (ran.code, ran.log.splitlines()[-1]) == (2, "::error title=Trainfit::no file matches")


def test_a_link_out_of_the_repository_is_not_read(repository: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("secret.yaml").write_text("password: open-sesame")
    repository.joinpath("jobs", "a.yaml").symlink_to(tmp_path / "secret.yaml")
    ran = run_action(repository, files="jobs/*.yaml")
    assert (ran.code, "open-sesame" in ran.log + ran.summary) == (2, False)
    assert "a link leads out of the repository" in ran.log


def test_the_example_workflow_gives_inputs_that_the_action_has() -> None:
    example = loaded(CI / "github" / "example.yml")
    assert set(example) >= {"name", "permissions", "jobs"}
    assert example["permissions"]["pull-requests"] == "write"
    (used,) = [
        step
        for step in example["jobs"]["fit-check"]["steps"]
        if step["uses"].partition("@")[0].endswith("deploy/ci/github")
    ]
    assert set(used["with"]) <= set(ACTION["inputs"])
    needed = {name for name, about in ACTION["inputs"].items() if about.get("required")}
    assert needed <= set(used["with"])


# Pull requests


@dataclass(slots=True)
class GitHub:
    """The comments of a pull request, and who asked for them."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refusal: int | None = None


@pytest.fixture
def github() -> Iterator[GitHub]:
    """An API that keeps comments as GitHub does: in pages, of 65,536 characters at most."""
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size, page = map(int, re.findall(r"page=(\d+)", self.path))
            self._answer(200, state.comments[size * (page - 1) : size * page])

        def do_POST(self) -> None:
            comment = {"id": len(state.comments), "user": {"type": "Bot"}, "body": self._body()}
            state.comments.append(comment)
            self._answer(201, comment)

        def do_PATCH(self) -> None:
            comment = state.comments[int(self.path.rpartition("/")[2])]
            comment["body"] = self._body()
            self._answer(200, comment)

        def _body(self) -> str:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body: str = sent["body"]
            assert len(body) <= 65_536
            return body

        def _answer(self, code: int, document: Any) -> None:
            state.asked.append((self.command, self.headers["Authorization"]))
            self.send_response(state.refusal or code)
            if state.refusal == 307:
                self.send_header("Location", f"{state.url}/elsewhere?per_page=1&page=1")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def git(folder: Path, *words: str) -> str:
    who = {
        f"GIT_{role}_{what}": "a@b"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder.parent), **who},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def committed(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "jobs")
    return git(folder, "rev-parse", "HEAD")


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A change of the repository, checked out as a runner does: its merge commit, and no other."""

    folder: Path
    event: Mapping[str, str]


@pytest.fixture
def pull_request(repository: Path, tmp_path: Path) -> PullRequest:
    """A pull request that makes one job longer, adds one, and takes one away, while others add one
    of theirs to the base, which the event does not know yet.
    """
    git(repository, "init", "--quiet")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    old = committed(repository)
    git(repository, "checkout", "--quiet", "-b", "change")
    job = repository / "jobs" / FITS
    text = job.read_text()
    job.write_text(text.replace("seq_length: 8192", "seq_length: 16384"))
    repository.joinpath("jobs", "a `new` one\n@them.yaml").write_text(
        text.replace("llama-8b", "more")
    )
    repository.joinpath("jobs", "long", TOO_LONG).unlink()
    head = committed(repository)
    git(repository, "checkout", "--quiet", "main")
    repository.joinpath("jobs", "of-others.yaml").write_text(text.replace("llama-8b", "of-others"))
    committed(repository)
    git(repository, "merge", "--quiet", "--no-ff", "--message", "merge", "change")
    folder = tmp_path / "checkout"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(folder))
    event = {"number": "7", "base.sha": old, "head.sha": head}
    return PullRequest(folder, event)


FILES = {"files": "jobs/**/*.yaml"}


def test_a_pull_request_is_told_what_it_changes(pull_request: PullRequest, github: GitHub) -> None:
    folder, event = pull_request.folder, pull_request.event
    ran = run_action(folder, event, github.url, **FILES)
    assert ran.code == 0, ran.log
    (comment,) = github.comments
    assert "3 of 4 checks changed since the baseline." in comment["body"]
    assert "1 more fit as before." in comment["body"]
    told = [row for row in comment["body"].splitlines() if row.startswith("| ") and "<br>" in row]
    rows = {row.split()[1].partition("<br>")[0]: row for row in told}
    assert re.search(r"\| fits → ⚠️ tight \| [\d.–]+ \| \+\d+\.\d \|", rows["llama-8b"])
    assert "✅ fits (new)" in rows["more"]
    assert "| gone |" in rows["llama-8b-long"]
    assert "&#96;new&#96; one<br>&#64;&#8203;them.yaml" in comment["body"]
    assert set(github.asked) == {("GET", f"Bearer {TOKEN}"), ("POST", f"Bearer {TOKEN}")}
    assert git(folder, "status", "--short") == ""


def test_a_later_run_brings_the_comment_up_to_date(
    pull_request: PullRequest, github: GitHub
) -> None:
    folder, event = pull_request.folder, pull_request.event
    run_action(folder, event, github.url, **FILES)
    mark = github.comments[0]["body"].splitlines()[0]
    person = {"id": 0, "user": {"type": "User"}, "body": f"{mark}\nfits, I promise"}
    others = [{"id": n, "user": {"type": "Bot"}, "body": "coverage"} for n in range(1, 120)]
    ours = {**github.comments[0], "id": 120, "body": f"{mark}\nold"}
    github.comments[:] = [person, *others, ours]
    run_action(folder, event, github.url, **FILES)
    assert len(github.comments) == 121
    assert "checks changed" in github.comments[120]["body"]
    assert github.comments[0]["body"].endswith("I promise")
    run_action(folder, event, github.url, **FILES, gpu="B200")
    assert len(github.comments) == 122


@pytest.mark.parametrize("refusal", [403, 404, 500, 307])
def test_who_may_not_comment_is_told_and_fails_by_the_verdict_only(
    pull_request: PullRequest, github: GitHub, refusal: int
) -> None:
    github.refusal = refusal
    ran = run_action(pull_request.folder, pull_request.event, github.url, **FILES)
    assert ran.code == 0
    assert "::notice title=Trainfit::" in ran.log
    assert ("pull-requests: write" in ran.log) == (refusal in (403, 404))
    assert "3 of 4 checks changed" in ran.summary
    assert len(github.asked) == 1
    assert TOKEN not in ran.log


def test_an_api_that_is_not_there_closes_no_gate(pull_request: PullRequest) -> None:
    ran = run_action(pull_request.folder, pull_request.event, "http://127.0.0.1:1", **FILES)
    assert ran.code == 0
    assert "no comment was posted: URLError" in ran.log


def test_a_base_that_cannot_be_read_leaves_a_comment_without_difference(
    pull_request: PullRequest, github: GitHub
) -> None:
    event = {**pull_request.event, "base.sha": "0" * 40, "head.sha": "1" * 40}
    ran = run_action(pull_request.folder, event, github.url, **FILES)
    assert ran.code == 0
    assert "::warning title=Trainfit::the base could not be read" in ran.log
    assert "| job | GPU | verdict | why |" in github.comments[0]["body"]


def test_a_push_is_checked_without_a_comment(repository: Path, github: GitHub) -> None:
    ran = run_action(repository, None, github.url, files=f"jobs/{FITS}")
    assert (ran.code, ran.outputs, github.asked) == (0, "exit-code=0\n", [])


def test_comments_can_be_declined(pull_request: PullRequest, github: GitHub) -> None:
    run_action(pull_request.folder, pull_request.event, github.url, **FILES, comment="false")
    assert github.asked == []


def test_only_the_step_that_comments_has_the_token() -> None:
    having = [s["name"] for s in ACTION["runs"]["steps"] if "inputs.token" in str(s.get("env"))]
    assert having == ["Comment"]
    (reading,) = [s for s in ACTION["runs"]["steps"] if s.get("id") == "check"]
    assert not re.search(r"token", yaml.safe_dump(reading["env"]), re.IGNORECASE)
