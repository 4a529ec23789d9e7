"""A Python client generated from openapi.json talks to the running service."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import UNHURRIED, running_service
from tools.openapi import DOCUMENT
from trainfit.api.api_keys import named, new_key
from trainfit.api.examples import COMPARE_EXAMPLES, DEEPSEEK_V3

PACKAGE = "generated_trainfit_client"
PATIENCE = httpx.Timeout(120)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the generated package."""
    folder = tmp_path_factory.mktemp("client")
    config = folder / "config.yaml"
    config.write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", str(DOCUMENT), "--config", str(config), "--fail-on-warning"]
    command += ["--output-path", str(folder / PACKAGE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_the_generated_client_asks_and_reads_a_typed_answer(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(generated)
    client_module: Any = importlib.import_module(PACKAGE)
    models: Any = importlib.import_module(f"{PACKAGE}.models")
    estimate: Any = importlib.import_module(f"{PACKAGE}.api.estimates.estimate")
    list_gpus: Any = importlib.import_module(f"{PACKAGE}.api.catalogues.list_gpus")

    with (
        running_service(**UNHURRIED) as service,
        client_module.Client(service.url, timeout=PATIENCE) as client,
    ):
        job = models.Job.from_dict(DEEPSEEK_V3)
        answer = estimate.sync(client=client, body=job)
        assert isinstance(answer, models.EstimateAnswer)
        assert [stage.pp_rank for stage in answer.stages] == [0, 1, 2, 3]
        assert answer.model.parameters.total == 671_026_404_352
        assert isinstance(answer.binding.device_bytes.expected, int)
        assert answer.summary.gb.startswith("Theoretical memory footprints: ")
        assert estimate.sync(client=client, body=answer.job).request_digest == answer.request_digest

        job.gpu = "H1000"
        refusal = estimate.sync_detailed(client=client, body=job)
        assert refusal.status_code == 422
        assert isinstance(refusal.parsed, models.Problem)
        assert refusal.parsed.errors[0].pointer == "/gpu"

        cards = list_gpus.sync(client=client)
        assert "H100-80GB" in {alias for card in cards.gpus for alias in (card.name, *card.aliases)}


def test_the_generated_client_checks_and_compares(
    generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(generated)
    client_module: Any = importlib.import_module(PACKAGE)
    models: Any = importlib.import_module(f"{PACKAGE}.models")
    fit_check: Any = importlib.import_module(f"{PACKAGE}.api.decisions.fit_check")
    compare: Any = importlib.import_module(f"{PACKAGE}.api.decisions.compare")
    batch: Any = importlib.import_module(f"{PACKAGE}.api.estimates.estimate_batch")

    with (
        running_service(**UNHURRIED) as service,
        client_module.Client(service.url, timeout=PATIENCE) as client,
    ):
        question = models.FitCheckQuestion.from_dict(DEEPSEEK_V3)
        verdict = fit_check.sync(client=client, body=question)
        assert isinstance(verdict, models.FitCheckAnswer)
        assert verdict.verdict == "does_not_fit"

        changes = models.CompareQuestion.from_dict(COMPARE_EXAMPLES["changes"]["value"])
        sides = compare.sync(client=client, body=changes)
        assert [job.id for job in sides.jobs] == ["tp 4", "full recompute"]
        assert sides.jobs[0].comparison.stages[0].difference_bytes < 0

        named = models.NamedJob("v3", models.Job.from_dict(DEEPSEEK_V3))
        (item,) = batch.sync(client=client, body=models.BatchRequest([named])).jobs
        assert item.estimate.model.parameters.total == 671_026_404_352


def test_the_generated_client_sends_a_key(generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(generated)
    client_module: Any = importlib.import_module(PACKAGE)
    models: Any = importlib.import_module(f"{PACKAGE}.models")
    list_gpus: Any = importlib.import_module(f"{PACKAGE}.api.catalogues.list_gpus")

    key = new_key()
    with running_service(TRAINFIT_API_KEYS=str(named("portal", key))) as service:
        with client_module.AuthenticatedClient(service.url, key, timeout=PATIENCE) as client:
            assert isinstance(list_gpus.sync(client=client), models.GpuList)
        with client_module.Client(service.url, timeout=PATIENCE) as client:
            refusal = list_gpus.sync_detailed(client=client)
        assert refusal.status_code == 401
        assert refusal.parsed.type_ == "/problems/unauthenticated"
