"""POST /v1/reconcile."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from trainfit.api.examples import CALIBRATION_EXAMPLES, LOG_EXAMPLES, RECONCILE_EXAMPLES

ASKED: dict[str, Any] = RECONCILE_EXAMPLES["megatron"]["value"] or {}


async def test_a_run_is_put_beside_its_prediction(client: AsyncClient) -> None:
    response = await client.post("/v1/reconcile", json=ASKED)
    assert response.status_code == 200, response.text
    found = response.json()
    quantities = {each["quantity"] for each in found["comparisons"]}
    assert quantities == {"resident", "allocated", "reserved"}
    assert found["coverage"] == {
        "num_gpus": 8,
        "ranks": [0],
        "pp_ranks": [0],
        "unseen_pp_ranks": [],
        "binding_seen": True,
    }


async def test_figures_that_were_read_are_taken_as_they_were_answered(client: AsyncClient) -> None:
    log = LOG_EXAMPLES["megatron"]["value"]
    read = (await client.post("/v1/measurements:from-logs", json=log)).json()["measurements"]
    by_figures = {**ASKED, "run": {"measurements": read}}
    by_log = {**ASKED, "run": log}
    answers = [await client.post("/v1/reconcile", json=each) for each in (by_figures, by_log)]
    assert [each.status_code for each in answers] == [200, 200]
    first, second = (each.json()["comparisons"] for each in answers)
    assert first == second


async def test_a_run_of_a_launch_is_put_beside_it(client: AsyncClient) -> None:
    flags = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096"
    flags += " --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 8 --bf16"
    launch = {"argv": f"torchrun --nproc-per-node 8 pretrain_gpt.py {flags} --vocab-size 32000"}
    response = await client.post("/v1/reconcile", json={"launch": launch, "run": ASKED["run"]})
    assert response.status_code == 200, response.text
    assert response.json()["launch"]["format"] == "megatron"


async def test_a_run_that_says_nothing_is_refused_by_its_place(client: AsyncClient) -> None:
    response = await client.post("/v1/reconcile", json={**ASKED, "run": {}})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/run"
    assert "artifacts" in error["message"]


async def test_a_job_that_does_not_hold_is_a_problem(client: AsyncClient) -> None:
    wrong = {**ASKED, "parallelism": {"num_gpus": 8, "tp": 3}}
    response = await client.post("/v1/reconcile", json=wrong)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"


async def test_runs_of_a_cluster_make_a_calibration_for_its_next_job(client: AsyncClient) -> None:
    asked: dict[str, Any] = CALIBRATION_EXAMPLES["full-memory"]["value"] or {}
    response = await client.post("/v1/calibrations:fit", json=asked)
    assert response.status_code == 200, response.text
    found = response.json()
    assert [rank["rank"] for rank in found["runs"][0]] == [3]
    job = {name: value for name, value in asked["runs"][0].items() if name != "run"}
    next_job = {**job, "calibration": found["calibration"]}
    (stage,) = (await client.post("/v1/estimate", json=next_job)).json()["stages"]
    (bare,) = (await client.post("/v1/estimate", json=job)).json()["stages"]
    assert stage["uncalibrated_device_bytes"] == bare["device_bytes"]
    assert stage["device_bytes"] != bare["device_bytes"]


async def test_a_launch_among_runs_that_cannot_be_read_is_named(client: AsyncClient) -> None:
    run: dict[str, Any] = {"launch": {"argv": "pretrain_gpt.py"}, "run": ASKED["run"]}
    response = await client.post("/v1/calibrations:fit", json={"runs": [ASKED, run]})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"].startswith("/runs/1/launch")
