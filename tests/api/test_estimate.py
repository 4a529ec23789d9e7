"""POST /v1/estimate: answers, and jobs that are refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from httpx import AsyncClient

from trainfit import __version__
from trainfit.api.examples import DEEPSEEK_V3, ESTIMATE_EXAMPLES, LLAMA_8B
from trainfit.questions.estimate import answer
from trainfit.questions.wire import to_json
from trainfit.specs.job import Job


def changed(path: str, value: Any) -> dict[str, Any]:
    """The DeepSeek-V3 job with one value set; `path` is like "parallelism.tp"."""
    job = deepcopy(DEEPSEEK_V3)
    *parents, last = path.split(".")
    part = job
    for name in parents:
        part = part[name]
    part[last] = value
    return job


@pytest.mark.parametrize("name", ESTIMATE_EXAMPLES)
async def test_the_documented_examples_are_answered(client: AsyncClient, name: str) -> None:
    job = ESTIMATE_EXAMPLES[name]["value"]
    response = await client.post("/v1/estimate", json=job)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    expected = answer(Job.model_validate(job))
    assert response.content == to_json(expected)
    assert response.headers["etag"] == f'"{expected.request_digest}"'


async def test_one_stage_for_every_pipeline_rank(client: AsyncClient) -> None:
    estimate = (await client.post("/v1/estimate", json=DEEPSEEK_V3)).json()
    assert [stage["pp_rank"] for stage in estimate["stages"]] == [0, 1, 2, 3]
    assert [len(stage["chunks"][0]["layers"]) for stage in estimate["stages"]] == [15, 15, 15, 16]
    assert estimate["model"]["name"] == "deepseek-ai/DeepSeek-V3"


async def test_activations_can_be_left_out(client: AsyncClient) -> None:
    response = await client.post("/v1/estimate?activations=false", json=DEEPSEEK_V3)
    expected = answer(Job.model_validate(DEEPSEEK_V3), activations=False)
    assert response.content == to_json(expected)


async def test_reserved_bytes_may_rest_on_a_ratio(client: AsyncClient) -> None:
    whole, by_ratio = [
        (await client.post(f"/v1/estimate{query}", json=LLAMA_8B)).json()
        for query in ("", "?replay=false")
    ]
    assert [each["stages"][0]["reserved_basis"] for each in (whole, by_ratio)] == [
        "replayed",
        "ratio",
    ]
    assert by_ratio["stages"][0]["allocated_bytes"] == whole["stages"][0]["allocated_bytes"]
    assert by_ratio["step_seconds"] == whole["step_seconds"]
    assert by_ratio["request_digest"] != whole["request_digest"]


async def test_one_line_or_one_number_may_be_asked_for(client: AsyncClient) -> None:
    whole = (await client.post("/v1/estimate", json=DEEPSEEK_V3)).json()
    line = await client.post("/v1/estimate?summary=gb", json=DEEPSEEK_V3)
    assert line.headers["content-type"] == "text/plain; charset=utf-8"
    assert line.headers["etag"] == f'"{whole["request_digest"]}"'
    assert line.text == whole["summary"]["gb"] + "\n"
    states_line = await client.post("/v1/estimate?activations=false", json=DEEPSEEK_V3)
    assert ", activation=" in line.text
    assert ", activation=" not in states_line.json()["summary"]["gb"]
    total = await client.post("/v1/estimate?summary=total", json=DEEPSEEK_V3)
    assert int(total.text) == whole["binding"]["device_bytes"]["expected"]
    states = await client.post("/v1/estimate?summary=total&activations=false", json=DEEPSEEK_V3)
    assert int(states.text) < int(total.text)
    refused = await client.post("/v1/estimate?summary=kb", json=DEEPSEEK_V3)
    assert refused.json()["detail"].startswith("query parameter summary: must be")
    broken = await client.post("/v1/estimate?summary=gb", json={})
    assert broken.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("*/*", "text/plain"),
        ("application/json", "application/json"),
        ("application/json, text/plain, application/problem+json", "application/json"),
        ("text/plain, application/json", "text/plain"),
        ("application/json;q=0.5, text/plain;q=0.9", "text/plain"),
        ("text/plain; q=0, Application/JSON", "application/json"),
        ("application/problem+json", "text/plain"),
        ("", "text/plain"),
    ],
)
async def test_a_summary_is_text_unless_json_is_named(
    client: AsyncClient, accept: str, media_type: str
) -> None:
    """Asked in turn with the same bytes, so that none is given the answer of another."""
    for accepted, expected in ((accept, media_type), ("*/*", "text/plain")):
        path, headers = "/v1/estimate?summary=mb", {"accept": accepted}
        given = await client.post(path, json=LLAMA_8B, headers=headers)
        assert given.headers["content-type"].partition(";")[0] == expected
        line = given.text.strip() if expected == "text/plain" else given.json()["summary"]["mb"]
        assert line.startswith("Theoretical memory footprints: weight and optimizer=")


async def test_experts_are_told_apart_and_mtp_is_counted(client: AsyncClient) -> None:
    whole = (await client.post("/v1/estimate", json=DEEPSEEK_V3)).json()
    parameters = whole["model"]["parameters"]
    mtp = parameters["by_bucket"]["mtp"]
    assert parameters["total_with_mtp"] == parameters["total"] + mtp > parameters["total"]
    for stage in whole["stages"]:
        experts = sum(chunk["expert_parameters"] for chunk in stage["chunks"])
        weights, gradients, optimizer, *others = stage["components"]
        # bf16 weights, fp32 gradients; experts have no data-parallel ranks here to share states.
        assert [each["expert_bytes"] / experts for each in (weights, gradients, optimizer)] == [
            *(2, 4, 12)
        ]
        assert weights["expert_bytes"] < weights["bytes"]
        assert {each["expert_bytes"] for each in others} == {None}


async def test_a_version_may_be_pinned(client: AsyncClient) -> None:
    served = await client.post(
        "/v1/estimate", json={**DEEPSEEK_V3, "estimator_version": __version__}
    )
    assert served.content == (await client.post("/v1/estimate", json=DEEPSEEK_V3)).content
    other = await client.post("/v1/estimate", json={**DEEPSEEK_V3, "estimator_version": "0.0.1"})
    assert other.status_code == 409
    assert other.json()["type"] == "/problems/version-not-served"
    (error,) = other.json()["errors"]
    assert error["suggestion"] == [
        {"op": "replace", "path": "/estimator_version", "value": __version__}
    ]


async def test_a_parameter_may_name_its_charset(client: AsyncClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    response = await client.post(
        "/v1/estimate", content=b'{"model": {"hf_id": "gpt2"}}', headers=headers
    )
    assert response.status_code == 200


REFUSED = [
    (
        changed("parallelism.num_layers_in_last_pipeline_stage", None),
        "invalid-layout",
        "/parallelism/pp",
        "layers_not_divisible",
    ),
    (
        changed("training.optimizer", {"name": "adafactor"}),
        "not-modelled",
        "/training/optimizer/name",
        "not_modelled",
    ),
    (changed("gpu", "H100-81GB"), "unknown-gpu", "/gpu", "unknown_name"),
    (changed("gpu", {"name": "H100-81GB"}), "unknown-gpu", "/gpu/name", "unknown_name"),
    (changed("gpu", {"reserved_other_bytes": 1}), "invalid-job", "/gpu", "invalid"),
    (
        changed("model.hf_id", "deepseek-ai/DeepSeek-V33"),
        "unknown-model",
        "/model/hf_id",
        "unknown_name",
    ),
    (
        changed("model", {"hf_config": {"model_type": "perceptron"}}),
        "unsupported-model",
        "/model/hf_config/model_type",
        "unsupported_model_type",
    ),
    (
        changed("model", {"hf_config": {"model_type": "llama", "hidden_size": "wide"}}),
        "invalid-model",
        "/model/hf_config/hidden_size",
        "invalid_config",
    ),
    (
        changed(
            "model",
            {
                "spec": {
                    "num_layers": 61,
                    "hidden_size": 100,
                    "num_attention_heads": 3,
                    "vocab_size": 1000,
                }
            },
        ),
        "invalid-model",
        "/model/spec/kv_channels",
        "invalid_config",
    ),
]


@pytest.mark.parametrize(("job", "slug", "pointer", "code"), REFUSED)
async def test_a_job_that_is_not_priced_is_refused_with_the_field(
    client: AsyncClient, job: dict[str, Any], slug: str, pointer: str, code: str
) -> None:
    response = await client.post("/v1/estimate", json=job)
    problem = response.json()
    assert response.status_code == problem["status"] == 422
    assert problem["type"] == f"/problems/{slug}"
    assert (problem["errors"][0]["pointer"], problem["errors"][0]["code"]) == (pointer, code)
    assert problem["errors"][0]["message"] in problem["detail"]


@pytest.mark.parametrize(
    ("path", "value", "right"),
    [
        ("gpu", "H100-81GB", "H100-80GB-SXM"),
        ("model.hf_id", "deepseek-ai/DeepSeek-V33", "deepseek-ai/DeepSeek-V3"),
    ],
)
async def test_the_suggestion_for_a_misspelt_name_is_a_patch_that_works(
    client: AsyncClient, path: str, value: str, right: str
) -> None:
    response = await client.post("/v1/estimate", json=changed(path, value))
    (error,) = response.json()["errors"]
    pointer = "/" + path.replace(".", "/")
    assert error["suggestion"] == [{"op": "replace", "path": pointer, "value": right}]
    assert (await client.post("/v1/estimate", json=changed(path, right))).status_code == 200


async def test_so_is_that_for_a_misspelt_name_in_an_object(client: AsyncClient) -> None:
    job = changed("gpu", {"name": "H100-81GB"})
    (error,) = (await client.post("/v1/estimate", json=job)).json()["errors"]
    (change,) = error["suggestion"]
    assert (change["op"], change["path"]) == ("replace", "/gpu/name")
    job["gpu"]["name"] = change["value"]
    assert (await client.post("/v1/estimate", json=job)).status_code == 200


async def test_the_suggestion_for_a_split_is_a_patch_that_works(client: AsyncClient) -> None:
    job = changed("parallelism.num_layers_in_last_pipeline_stage", None)
    (error,) = (await client.post("/v1/estimate", json=job)).json()["errors"]
    for change in error["suggestion"]:
        part, name = change["path"].removeprefix("/").split("/")
        job[part][name] = change["value"]
    assert (await client.post("/v1/estimate", json=job)).status_code == 200


async def test_the_model_type_is_named_when_it_is_not_supported(client: AsyncClient) -> None:
    job = changed("model", {"hf_config": {"model_type": "perceptron"}})
    detail = (await client.post("/v1/estimate", json=job)).json()["detail"]
    assert "perceptron" in detail
    assert "model.spec" in detail


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("activations=maybe", "query parameter activations: must be true or false"),
        (
            "activation=false",
            "query parameter activation: unknown field; did you mean activations?",
        ),
    ],
)
async def test_a_wrong_query_parameter_is_refused(
    client: AsyncClient, query: str, detail: str
) -> None:
    response = await client.post(f"/v1/estimate?{query}", json=DEEPSEEK_V3)
    problem = response.json()
    assert problem["type"] == "/problems/invalid-parameter"
    assert problem["detail"] == detail
