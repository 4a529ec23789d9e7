"""`trainfit models`, and models of the Hub at a terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    OTHER_COMMIT,
    FakeHub,
    gated,
    model,
    only_for,
    running_hub,
    says,
)
from trainfit.catalog.configs import bundled_ids

REPO = "acme/small"
TOKEN = "hf_mine"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub that commands ask, with a folder of their own to keep what it says."""
    with running_hub() as hub:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("TRAINFIT_CACHE_DIR", str(tmp_path / "cache"))
        yield hub


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"model": {"hf_id": REPO}, "gpu": "H100-80GB"}))
    return path


def revision_of(run: Run, line: str) -> str | None:
    answered = run(line)
    assert not answered.code, answered.err
    revision: str | None = json.loads(answered.out)["model"]["revision"]
    return revision


def test_a_model_of_the_hub_is_fetched_once(run: Run, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    for _ in range(2):
        assert revision_of(run, f"estimate {REPO} --json") == COMMIT
    assert fake.asked(REPO) == 1
    assert f"from the Hub at {COMMIT[:12]}" in run(f"estimate {REPO}").out


def test_a_branch_that_moved_is_seen_at_once(
    run: Run, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends with the answer, so what is old is asked for before it."""
    monkeypatch.setenv("TRAINFIT_HUB_TTL_SECONDS", "0")
    fake.models[REPO] = model()
    run(f"estimate {REPO}")
    fake.models[REPO] = model(commit=OTHER_COMMIT)
    assert revision_of(run, f"estimate {REPO} --json") == OTHER_COMMIT
    fake.models[REPO] = says(500)
    assert revision_of(run, f"estimate {REPO} --json") == OTHER_COMMIT


def test_the_gate_asks_the_network_only_where_it_is_told_to(
    run: Run, fake: FakeHub, jobs: Path
) -> None:
    fake.models[REPO] = model()
    assert run(f"fit-check {jobs}").code == 5
    assert fake.requests == []
    assert not run(f"fit-check {jobs} --online").code
    assert not run(f"fit-check {jobs}").code
    assert fake.asked(REPO) == 1


def test_a_gate_that_asks_a_service_looks_nothing_up(run: Run, jobs: Path) -> None:
    answered = run(f"fit-check {jobs} --online --server http://127.0.0.1:1")
    assert answered.code == 2
    assert "--online" in answered.err


def test_jobs_side_by_side_are_looked_up(run: Run, fake: FakeHub, jobs: Path) -> None:
    fake.models[REPO] = model()
    assert not run(f"compare {jobs} {jobs}").code
    assert fake.asked(REPO) == 1


def test_what_was_pulled_answers_without_a_network(
    run: Run,
    fake: FakeHub,
    jobs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another machine, to which the folder was carried."""
    fake.models |= {REPO: model(), "acme/other": model(commit=OTHER_COMMIT)}
    pulled = run(f"models pull {REPO} acme/other@v1")
    assert not pulled.code
    assert pulled.out.splitlines() == [f"{REPO} {COMMIT}", f"acme/other {OTHER_COMMIT}"]
    shutil.copytree(tmp_path / "cache", tmp_path / "carried")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINFIT_CACHE_DIR", str(tmp_path / "carried"))
    assert revision_of(run, f"estimate {REPO} --json") == COMMIT
    assert not run(f"fit-check {jobs}").code
    listed = json.loads(run("models list --json").out)["models"]
    assert [(each["hf_id"], each["revision"], each["commit"]) for each in listed] == [
        ("acme/other", "v1", OTHER_COMMIT),
        (REPO, "main", COMMIT),
    ]
    table = run("models list").out
    assert f"{REPO}" in table
    assert OTHER_COMMIT in table
    assert len(fake.requests) == 2


def test_a_commit_may_be_pulled(run: Run, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    assert not run(f"models pull {REPO}@{COMMIT}").code
    (listed,) = json.loads(run("models list --json").out)["models"]
    assert (listed["revision"], listed["commit"]) == (COMMIT, COMMIT)


def test_pull_asks_again_whatever_is_known(run: Run, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    run(f"models pull {REPO}")
    fake.models[REPO] = model(commit=OTHER_COMMIT)
    assert OTHER_COMMIT in run(f"models pull {REPO}").out
    assert revision_of(run, f"estimate {REPO} --json") == OTHER_COMMIT


def test_pull_tells_what_it_did_not_fetch_and_goes_on(run: Run, fake: FakeHub) -> None:
    fake.models |= {REPO: model(), "acme/closed": gated}
    pulled = run(f"models pull acme/closed acme/none {REPO}")
    assert pulled.code == 2
    assert pulled.out == f"{REPO} {COMMIT}\n"
    first, second = pulled.err.splitlines()
    assert first.startswith("trainfit: acme/closed: the model is gated")
    assert second.startswith("trainfit: acme/none: the Hub has no such model")


def test_pull_keeps_or_refuses(
    run: Run, fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for folder in ("", str(tmp_path / "file")):
        monkeypatch.setenv("TRAINFIT_CACHE_DIR", folder)
        refused = run(f"models pull {REPO}")
        assert refused.code == 2
        assert refused.err.startswith("trainfit: TRAINFIT_CACHE_DIR: ")
    assert run("models pull a/b/c").code == 2
    assert fake.requests == []


def test_one_who_has_logged_in_sees_ones_own_models(
    run: Run, fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    refused = run(f"estimate {REPO}")
    assert refused.code == 2
    assert refused.err.startswith("trainfit: MODEL: the model is gated or private")
    home = tmp_path / "huggingface"
    home.mkdir()
    (home / "token").write_text(f"{TOKEN}\n")
    monkeypatch.setenv("HF_HOME", str(home))
    assert revision_of(run, f"estimate {REPO} --json") == COMMIT
    assert "with a token" in run("models list").out
    assert not any(TOKEN in path.read_text("latin-1") for path in (tmp_path / "cache").iterdir())


def test_the_cache_of_huggingface_hub_is_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "hub" / "models--acme--small" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    refs = tmp_path / "hub" / "models--acme--small" / "refs"
    refs.mkdir()
    (refs / "main").write_text(COMMIT)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert revision_of(run, f"estimate {REPO} --json") == COMMIT


def test_an_empty_cache_is_listed(run: Run, fake: FakeHub, tmp_path: Path) -> None:
    assert not run("models list").code
    assert json.loads(run("models list --json").out) == {"models": []}
    assert fake.requests == []
    assert not (tmp_path / "cache").exists()


def test_models_lists_those_of_the_package(run: Run) -> None:
    assert run("models").out.splitlines() == list(bundled_ids())


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HF_ENDPOINT", "hub"), ("TRAINFIT_HUB_TTL_SECONDS", "-1"), ("HF_TOKEN_PATH", "/nowhere")],
)
def test_a_setting_that_is_wrong_is_named(
    run: Run, fake: FakeHub, jobs: Path, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    for line in (f"estimate {REPO}", f"fit-check {jobs}", f"models pull {REPO}"):
        refused = run(line)
        assert refused.code == 2
        assert refused.err.startswith(f"trainfit: {variable}: ")
    assert fake.requests == []


def test_a_model_that_is_cached_needs_no_http_client(fake: FakeHub) -> None:
    fake.models[REPO] = model()
    subprocess.run(
        [sys.executable, "-m", "trainfit", "models", "pull", REPO], check=True, capture_output=True
    )
    script = (
        "import sys; from trainfit.cli import main\n"
        f"main(['estimate', '{REPO}'])\n"
        "assert not {'httpx', 'redis', 'fastapi'} & {*sys.modules}, 'loaded'"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, env={**os.environ}
    )
