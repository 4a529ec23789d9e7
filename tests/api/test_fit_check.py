"""POST /v1/fit-check: a verdict is an answer, not an error."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import AsyncClient

from trainfit.api.examples import DEEPSEEK_V3, FIT_CHECK_EXAMPLES, LLAMA_8B
from trainfit.estimator import reserved
from trainfit.questions.fit_check import check_fit
from trainfit.questions.wire import to_json
from trainfit.specs.policy import FitCheckRequest
from trainfit.workers.pool import Workers

PATH = "/v1/fit-check"


@pytest.mark.parametrize("name", FIT_CHECK_EXAMPLES)
async def test_the_documented_examples_are_answered(client: AsyncClient, name: str) -> None:
    body = FIT_CHECK_EXAMPLES[name]["value"]
    response = await client.post(PATH, json=body)
    assert response.status_code == 200
    expected = check_fit(FitCheckRequest.model_validate(body))
    assert response.content == to_json(expected)
    assert response.headers["etag"] == f'"{expected.request_digest}"'


async def test_what_does_not_fit_is_answered_too(client: AsyncClient) -> None:
    answer = (await client.post(PATH, json=DEEPSEEK_V3)).json()
    assert (answer["verdict"], answer["passes"]) == ("does_not_fit", False)
    assert answer["stages"][answer["binding"]["pp_rank"]]["margin_bytes"]["high"] < 0
    assert answer["estimate"]["binding"] == answer["binding"]


async def test_a_first_look_replays_nothing_and_waits_for_no_worker(client: AsyncClient) -> None:
    look = {**DEEPSEEK_V3, "suggest": False, "replay": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "run", never)
        first = (await client.post(PATH, json=look)).json()
    exact = (await client.post(PATH, json={**look, "replay": True})).json()
    bases = [
        {stage["reserved_basis"] for stage in each["estimate"]["stages"]} for each in (first, exact)
    ]
    assert bases == [{"ratio"}, {"replayed"}]
    assert first["verdict"] == exact["verdict"] == "does_not_fit"
    assert first["request_digest"] != exact["request_digest"]


async def test_changes_are_tried_by_the_ratio_that_was_asked_for(client: AsyncClient) -> None:
    question = {**DEEPSEEK_V3, "replay": False, "limits": {"micro_batch_size": True}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reserved, "reservations", never)
        answer = check_fit(FitCheckRequest.model_validate(question))
    assert answer.suggestions
    assert (await client.post(PATH, json=question)).content == to_json(answer)


def never(*_: object) -> None:
    raise AssertionError


async def test_a_card_can_be_named_in_an_object(client: AsyncClient) -> None:
    """Clients in languages without unions have only the object."""
    plain, named, shared = [
        (await client.post(PATH, json={**LLAMA_8B, "gpu": gpu})).json()
        for gpu in (
            "H100-80GB",
            {"name": "H100-80GB"},
            {"name": "H100-80GB", "reserved_other_bytes": 2**30},
        )
    ]
    assert named["stages"] == plain["stages"]
    assert (named["verdict"], named["usable_bytes"]) == (plain["verdict"], plain["usable_bytes"])
    assert shared["usable_bytes"] == plain["usable_bytes"] - 2**30


async def test_what_is_not_modelled_is_unknown_and_named(client: AsyncClient) -> None:
    job = {**LLAMA_8B, "training": {"precision": "bf16-pure"}}
    answer = (await client.post(PATH, json=job)).json()
    assert (answer["verdict"], answer["estimate"]) == ("unknown", None)
    assert answer["not_modelled"][0]["pointer"] == "/training/precision"
    assert answer["job"]["training"]["precision"] == "bf16-pure"
    assert len(answer["request_digest"]) == 64


async def test_the_defaults_told_are_those_of_the_job(client: AsyncClient) -> None:
    answer = (await client.post(PATH, json=LLAMA_8B)).json()
    estimate = (await client.post("/v1/estimate", json=LLAMA_8B)).json()
    assert answer["estimate"]["defaults"] == estimate["defaults"]
    assert answer["job"] == estimate["job"]


async def test_the_policy_is_part_of_what_was_asked(client: AsyncClient) -> None:
    policies: list[dict[str, Any]] = [{}, {"headroom_bytes": 1}, {"headroom_ratio": 0.1}]
    digests = {
        (await client.post(PATH, json={**LLAMA_8B, "policy": policy})).json()["request_digest"]
        for policy in policies
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("change", "status", "slug"),
    [
        ({"gpu": None}, 422, "invalid-job"),
        ({"gpu": "abacus"}, 422, "unknown-gpu"),
        ({"policy": {"headroom_ratio": 1.0}}, 422, "invalid-job"),
        ({"policy": {"allow": [{"verdict": "does_not_fit", "reason": "."}]}}, 422, "invalid-job"),
        ({"parallelism": {"pp": 5}}, 422, "invalid-layout"),
        ({"estimator_version": "0.0.1"}, 409, "version-not-served"),
    ],
)
async def test_what_is_no_question_is_a_problem(
    client: AsyncClient, change: dict[str, Any], status: int, slug: str
) -> None:
    response = await client.post(PATH, json={**LLAMA_8B, **change})
    assert response.status_code == status
    assert response.json()["type"] == f"/problems/{slug}"
