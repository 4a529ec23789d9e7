"""POST /v1/compare and /v1/estimate:batch: many jobs in one request."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.cost import lane_of, lane_of_check, size_of
from trainfit.api.examples import BATCH_EXAMPLES, COMPARE_EXAMPLES, DEEPSEEK_V3, LLAMA_8B
from trainfit.api.routes import estimate
from trainfit.questions.dimensions import from_package
from trainfit.specs.job import Job
from trainfit.specs.policy import FitCheckRequest

COMPARE, BATCH = "/v1/compare", "/v1/estimate:batch"
LINED = {"accept": "application/x-ndjson"}

BAD: dict[str, tuple[Any, str, str]] = {
    "no object": (5, "invalid-job", ""),
    "no model": ({}, "invalid-job", "/model"),
    "wrong type": ({**LLAMA_8B, "parallelism": {"tp": "2"}}, "invalid-job", "/parallelism/tp"),
    "layout": ({**LLAMA_8B, "parallelism": {"pp": 5}}, "invalid-layout", "/parallelism/pp"),
    "card": ({**LLAMA_8B, "gpu": "abacus"}, "unknown-gpu", "/gpu"),
    "version": (
        {**LLAMA_8B, "estimator_version": "0.0.1"},
        "version-not-served",
        "/estimator_version",
    ),
}


def named(**jobs: Any) -> dict[str, Any]:
    return {"jobs": [{"id": name, "job": job} for name, job in jobs.items()]}


async def asked(client: AsyncClient, path: str, body: Any) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("name", COMPARE_EXAMPLES)
async def test_the_documented_comparisons_are_answered(client: AsyncClient, name: str) -> None:
    answer = await asked(client, COMPARE, COMPARE_EXAMPLES[name]["value"])
    assert all(job["problem"] is None for job in answer["jobs"])


@pytest.mark.parametrize("path", [COMPARE, BATCH])
async def test_order_is_kept_and_a_bad_job_spoils_no_other(client: AsyncClient, path: str) -> None:
    jobs = {"first": LLAMA_8B, **{name: job for name, (job, _, _) in BAD.items()}}
    answer = await asked(client, path, named(**jobs, last=DEEPSEEK_V3))
    assert [job["id"] for job in answer["jobs"]] == ["first", *BAD, "last"]
    first, *bad, last = answer["jobs"]
    assert first["problem"] is None
    assert last["problem"] is None
    for item, (_, slug, pointer) in zip(bad, BAD.values(), strict=True):
        assert None in (item.get("estimate", ...), item.get("comparison", ...))
        assert item["problem"]["type"] == f"/problems/{slug}"
        assert pointer in {error["pointer"] for error in item["problem"]["errors"]}


async def test_a_batch_answers_each_job_as_if_it_were_alone(client: AsyncClient) -> None:
    body: Any = BATCH_EXAMPLES["two"]["value"]
    for query in ("", "?activations=false", "?replay=false"):
        answer = await asked(client, BATCH + query, body)
        for item, sent in zip(answer["jobs"], body["jobs"], strict=True):
            assert item["estimate"] == await asked(client, f"/v1/estimate{query}", sent["job"])


async def test_the_jobs_of_a_batch_are_answered_line_by_line_where_that_is_accepted(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    good: Any = BATCH_EXAMPLES["two"]["value"]
    bad = [{"id": name, "job": job} for name, (job, *_) in BAD.items()]
    body = {"jobs": [*good["jobs"], *bad]}
    whole = await asked(client, BATCH, body)
    lined = await client.post(BATCH, json=body, headers=LINED)
    assert lined.headers["content-type"] == LINED["accept"]
    assert lined.text.endswith("\n")
    assert [json.loads(line) for line in lined.text.splitlines()] == whole["jobs"]
    metrics = (await client.get("/metrics")).text
    assert "trainfit_estimates_total" in metrics
    monkeypatch.setattr(estimate, "STREAM_SECONDS", 0)
    late = await client.post(BATCH, json=good, headers=LINED)
    types = [json.loads(line)["problem"]["type"] for line in late.text.splitlines()]
    assert types == ["/problems/timed-out"] * len(good["jobs"])


async def test_a_comparison_that_replays_nothing_has_wider_bounds(client: AsyncClient) -> None:
    change = {"id": "tp4", "patch": [{"op": "add", "path": "/parallelism/tp", "value": 4}]}
    question = {"job": LLAMA_8B, "changes": [change]}
    replayed, by_ratio = [
        answer["jobs"][0]["comparison"]["binding"]["device_bytes"]
        for answer in [
            await asked(client, COMPARE, question),
            await asked(client, COMPARE, {**question, "replay": False}),
        ]
    ]
    assert by_ratio["low"] <= replayed["low"] <= replayed["high"] < by_ratio["high"]


def test_who_replays_nothing_does_not_wait_for_who_does() -> None:
    jobs = [Job.model_validate(DEEPSEEK_V3)] * 30
    assert lane_of(size_of(jobs, from_package)) == "pricing"
    assert lane_of(size_of(jobs, from_package, replay=False)) == "quick"


def test_a_verdict_alone_does_not_wait_for_changes_that_are_tried() -> None:
    job = {**DEEPSEEK_V3, "gpu": "H100-80GB-SXM"}
    alone = FitCheckRequest.model_validate({**job, "suggest": False})
    size = size_of([alone], from_package)
    assert lane_of_check(size, alone) == "quick"
    assert lane_of_check(size, alone.model_copy(update={"suggest": True})) == "pricing"


async def test_changes_are_compared_to_the_job(client: AsyncClient) -> None:
    answer = await asked(client, COMPARE, COMPARE_EXAMPLES["changes"]["value"])
    assert answer["baseline"]["id"] == "job"
    assert answer["baseline"]["comparison"]["difference_bytes"] == 0
    tp, recompute = answer["jobs"]
    assert (tp["id"], recompute["id"]) == ("tp 4", "full recompute")
    assert tp["comparison"]["difference_bytes"] < 0
    assert tp["comparison"]["verdict"] == "fits"
    changed = deepcopy(LLAMA_8B)
    changed["parallelism"]["tp"] = 4
    alone = await asked(client, "/v1/estimate", changed)
    assert tp["comparison"]["binding"] == alone["binding"]
    assert "job" in tp["comparison"]["dominates"]


@pytest.mark.parametrize(
    ("op", "path", "value", "slug", "pointer"),
    [
        ("replace", "/parallelism/ep", 2, "invalid-patch", "/patch/0/path"),
        ("remove", "/gpu/name", None, "invalid-patch", "/patch/0/path"),
        ("add", "", {}, "invalid-patch", "/patch/0/path"),
        ("replace", "/parallelism/tp", 0, "invalid-job", "/parallelism/tp"),
        ("add", "/gpus", 1, "invalid-job", "/gpus"),
        ("replace", "/parallelism/tp", 3, "invalid-layout", "/parallelism/num_gpus"),
    ],
)
async def test_a_bad_change_spoils_no_other(
    client: AsyncClient, op: str, path: str, value: Any, slug: str, pointer: str
) -> None:
    operation = {"op": op, "path": path, "value": value}
    changes = [{"id": "bad", "patch": [operation]}, {"id": "none", "patch": []}]
    answer = await asked(client, COMPARE, {"job": LLAMA_8B, "changes": changes})
    bad, none = answer["jobs"]
    assert bad["problem"]["type"] == f"/problems/{slug}"
    assert bad["problem"]["errors"][0]["pointer"] == pointer
    assert none["comparison"]["difference_bytes"] == 0


async def test_the_first_job_is_the_baseline_unless_another_is_named(client: AsyncClient) -> None:
    jobs = named(small=LLAMA_8B, large=DEEPSEEK_V3)
    assert (await asked(client, COMPARE, jobs))["baseline"]["id"] == "small"
    answer = await asked(client, COMPARE, {**jobs, "baseline": "large"})
    assert answer["baseline"] == answer["jobs"][1]


async def test_without_a_baseline_that_is_priced_there_are_no_differences(
    client: AsyncClient,
) -> None:
    answer = await asked(client, COMPARE, named(bad={}, good=LLAMA_8B))
    assert answer["baseline"]["problem"] is not None
    assert answer["jobs"][1]["comparison"]["difference_bytes"] is None


async def test_a_verdict_is_given_where_a_card_is_named(client: AsyncClient) -> None:
    without = {name: part for name, part in LLAMA_8B.items() if name != "gpu"}
    tiny = {"memory_bytes": 2**30}
    jobs = named(
        none=without, fits={**LLAMA_8B, "gpu": "H200"}, not_at_all={**without, "gpu": tiny}
    )
    answer = await asked(client, COMPARE, jobs)
    verdicts = [job["comparison"]["verdict"] for job in answer["jobs"]]
    assert verdicts == [None, "fits", "does_not_fit"]


MANY = [{"id": str(number), "job": LLAMA_8B} for number in range(65)]


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (COMPARE, {}, "give either jobs, or one of job and launch, and changes"),
        (COMPARE, {"job": LLAMA_8B}, "give either jobs, or one of job and launch, and changes"),
        (COMPARE, {**named(a=LLAMA_8B), "baseline": "b"}, "baseline is the id of none of the jobs"),
        (
            COMPARE,
            {"job": LLAMA_8B, "changes": [{"id": "job", "patch": []}]},
            "the id of number 1 is taken already",
        ),
        (
            COMPARE,
            {"job": LLAMA_8B, "changes": [{"id": "a", "patch": []}], "baseline": "a"},
            "changes are compared to the job; leave baseline out",
        ),
        (BATCH, {"jobs": MANY[:1] * 2}, "the id of number 2 is taken already"),
        (BATCH, {"jobs": MANY}, "must be a list of at most 64"),
        (BATCH, {"jobs": [{"job": LLAMA_8B}]}, "is needed and missing"),
        (BATCH, {"jobs": []}, "must be a list of at least 1"),
        (COMPARE, {"job": {"model": {}}, "changes": [{"id": "a", "patch": []}]}, "exactly one"),
    ],
)
async def test_a_request_that_cannot_be_told_apart_is_refused(
    client: AsyncClient, path: str, body: Any, message: str
) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 422
    assert response.json()["type"] == "/problems/invalid-job"
    assert message in response.json()["errors"][0]["message"]


async def test_what_is_to_stay_free_counts_for_every_verdict(client: AsyncClient) -> None:
    job = {**LLAMA_8B, "gpu": {"memory_bytes": 80 * 2**30}}
    changes = [{"id": "tp 4", "patch": [{"op": "add", "path": "/parallelism/tp", "value": 4}]}]
    for headroom in ({}, {"headroom_ratio": 0.5}, {"headroom_bytes": 79 * 2**30}):
        answer = await asked(client, COMPARE, {"job": job, "changes": changes, "policy": headroom})
        for compared, tp in ((answer["baseline"], None), (answer["jobs"][0], 4)):
            alone = {**job, "parallelism": {**job["parallelism"], **({"tp": tp} if tp else {})}}
            check = await client.post("/v1/fit-check", json={**alone, "policy": headroom})
            assert compared["comparison"]["verdict"] == check.json()["verdict"]


@pytest.mark.parametrize("path", [COMPARE, BATCH])
async def test_sixty_four_are_answered(client: AsyncClient, path: str) -> None:
    assert len((await asked(client, path, {"jobs": MANY[:64]}))["jobs"]) == 64
