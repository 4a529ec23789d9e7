"""The dashboard shows what the service counts: each query is answered with data by a Prometheus
that scrapes a running service, configured as in the compose file.
"""

from __future__ import annotations

import json
import math
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from tests.api.kubernetes.objects import DOES_NOT_FIT, FITS, JOB, TIGHT, annotated, review
from tests.hostile import LONGEST
from tests.hub.fake_hub import running_hub
from tests.programs import needed
from tests.serving import Service, free_port, running_service
from tools.docs.service import exposed, families
from trainfit.api.examples import RECONCILE_EXAMPLES

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
QUERIES = {
    f"{panel['title']}/{target['refId']}": target["expr"]
    for panel in PANELS
    for target in panel["targets"]
}
UNITS = {"none", "reqps", "ops", "s", "bytes", "percentunit"}
WAIT_SECONDS = 60


def test_every_panel_is_named_described_and_has_its_place() -> None:
    assert len({each["id"] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len(QUERIES) == sum(len(panel["targets"]) for panel in PANELS)
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not overlap(one["gridPos"], other["gridPos"]), (one["title"], other["title"])


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def test_every_panel_asks_the_source_and_the_jobs_that_are_chosen() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables.keys() == {"datasource", "job"}
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in PANELS:
        for asked in (panel, *panel["targets"]):
            assert asked["datasource"] == chosen
    assert all('job=~"$job"' in query for query in QUERIES.values())


def test_every_metric_of_the_service_is_shown() -> None:
    shown = " ".join(QUERIES.values())
    assert [name for name in map(exposed, families()) if name not in shown] == []


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """One that asks a hub, which has no models."""
    with running_hub() as hub:
        settings = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.url}
        settings |= {"TRAINFIT_MAX_CONCURRENT_REQUESTS": "1", "TRAINFIT_LOG_LEVEL": "error"}
        with running_service(**settings) as running:
            yield running


@pytest.fixture(scope="module")
def prometheus(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that is configured as in the compose file, but for haste."""
    program = needed("prometheus", package="prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    assert config["rule_files"] == ["alerts.yaml"]
    config["rule_files"] = [str(DEPLOY / "monitoring" / "alerts.yaml")]
    (static,) = config["scrape_configs"][0]["static_configs"]
    assert static["targets"] == ["trainfit:8080"]
    static["targets"] = [service.url.removeprefix("http://")]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [program, f"--config.file={folder / 'prometheus.yaml'}", "--log.level=error"]
    command += [f"--storage.tsdb.path={folder}", f"--web.listen-address=127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while not answers(f"{url}/-/ready"):
                assert process.poll() is None, process.stderr and process.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def traffic(url: str) -> None:
    """Requests of every kind: answered, refused, and one too many at once. What was answered before
    is answered again however busy a service is, so each of these is new.
    """
    with httpx.Client(base_url=url, timeout=30) as client:
        for job in (FITS, TIGHT, DOES_NOT_FIT, {}):
            client.post("/v1/estimate", json=job)
            client.post("/v1/fit-check", json=job)
            client.post("/v1/admission", json=review(annotated(JOB, job)))
            client.post("/v1/admission/enforce", json=review(annotated(JOB, job)))
        client.post("/v1/estimate", json={"model": {"hf_id": f"acme/{uuid4().hex}"}})
        client.post("/v1/jobs:from-launch", json={"argv": "pretrain_gpt.py"})
        client.post("/v1/reconcile", json=RECONCILE_EXAMPLES["megatron"]["value"])
        client.get("/v1/gpus")
        client.get("/nowhere")
        deadline = time.monotonic() + 20
        refused = False
        while not refused:
            assert time.monotonic() < deadline
            new = {"policy": {"headroom_bytes": time.monotonic_ns() % 2**20}}
            dear = threading.Thread(
                target=partial(httpx.post, f"{url}/v1/fit-check", json=LONGEST | new, timeout=30)
            )
            dear.start()
            while dear.is_alive():
                new = {"policy": {"headroom_bytes": time.monotonic_ns() % 2**20}}
                answer = client.post("/v1/fit-check", json=FITS | new, timeout=30)
                refused |= answer.status_code == 503


def test_every_query_is_answered_with_data(service: Service, prometheus: str) -> None:
    waiting = dict(QUERIES)
    deadline = time.monotonic() + WAIT_SECONDS
    while waiting and time.monotonic() < deadline:
        traffic(service.url)
        for name, query in list(waiting.items()):
            if has_data(prometheus, query):
                del waiting[name]
        time.sleep(0.5)
    assert waiting == {}


def has_data(prometheus: str, query: str) -> bool:
    """Whether the query is answered with a number; Grafana puts in the same two variables."""
    query = query.replace("$__rate_interval", "10s").replace("$job", "(trainfit)")
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    return any(math.isfinite(float(each["value"][1])) for each in answer["data"]["result"])


def test_every_alert_is_evaluated_and_none_is_raised(prometheus: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        data = httpx.get(f"{prometheus}/api/v1/rules").json()["data"]
        rules = [rule for group in data["groups"] for rule in group["rules"]]
        if all(rule["health"] == "ok" for rule in rules) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert rules
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
