"""The same question is worked out once, and answered as if it were worked out each time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastapi
import pytest
from httpx import ASGITransport, AsyncClient, Response
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Receive, Scope, Send

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
from trainfit.api import compression, replies
from trainfit.api.answers import Answer, Answers, RequestKey
from trainfit.api.app import create_app
from trainfit.api.connection import ARRIVED
from trainfit.api.examples import LLAMA_8B
from trainfit.api.settings import ServiceSettings
from trainfit.questions.estimate import answer
from trainfit.questions.estimate_answer import EstimateAnswer
from trainfit.resolve.plan import ModelSource
from trainfit.specs.job import Job
from trainfit.specs.model import Model

BODY = json.dumps(LLAMA_8B).encode()
JSON = {"content-type": "application/json"}


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An entry for each job that is worked out."""
    calls: list[str] = []

    def counted(job: Job, **options: Any) -> EstimateAnswer:
        calls.append(job.framework.name)
        return answer(job, **options)

    monkeypatch.setattr(replies, "answer", counted)
    return calls


@pytest.fixture(params=(False, True), ids=("arriving", "arrived"))
async def client(request: pytest.FixtureRequest) -> AsyncIterator[AsyncClient]:
    """Asks a service whose server says, or does not, that bodies are there."""
    async with asking(arrived=request.param) as client:
        yield client


@asynccontextmanager
async def asking(*, arrived: bool = False, **settings: int) -> AsyncIterator[AsyncClient]:
    app = create_app(ServiceSettings.model_validate(settings))

    async def service(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {ARRIVED: True}} if arrived else scope, receive, send)

    transport = ASGITransport(service)
    async with AsyncClient(transport=transport, base_url="http://service") as client:
        yield client


async def ask(
    client: AsyncClient, body: bytes = BODY, query: str = "", token: str | None = None
) -> Response:
    headers = JSON if token is None else {**JSON, "x-hf-token": token}
    return await client.post(f"/v1/estimate{query}", content=body, headers=headers)


async def test_the_same_bytes_get_the_same_bytes(
    client: AsyncClient, worked_out: list[str]
) -> None:
    first, second = await ask(client), await ask(client)
    assert first.status_code == second.status_code == 200
    assert first.content == second.content
    assert first.headers["etag"] == second.headers["etag"]
    assert first.headers["content-type"] == second.headers["content-type"] == "application/json"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert len(worked_out) == 1


async def test_it_is_compressed_once(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    part, compressions = compression._part, list[bytes]()

    def noted(compressor: Any, body: bytes, more: bool) -> bytes:
        compressions.append(body)
        return part(compressor, body, more)

    monkeypatch.setattr(compression, "_part", noted)
    answers = [await ask(client) for _ in range(4)]
    assert {each.headers["content-encoding"] for each in answers} == {"gzip"}
    assert len({each.headers["content-length"] for each in answers}) == 1
    assert len(compressions) == 2  # as it was sent, and as it is kept
    as_it_is = {**JSON, "accept-encoding": "identity"}
    whole = await client.post("/v1/estimate", content=BODY, headers=as_it_is)
    assert "content-encoding" not in whole.headers
    assert {each.content for each in answers} == {whole.content}
    differing = {"content-encoding", "content-length", "x-request-id"}
    headers = [
        {name: value for name, value in each.headers.items() if name not in differing}
        for each in (*answers, whole)
    ]
    assert all(each == headers[0] for each in headers)


async def test_it_is_counted_each_time(client: AsyncClient) -> None:
    for query in ("", "", "?activations=false", "?activations=false"):
        await ask(client, query=query)
    metrics = (await client.get("/metrics")).text
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    assert values["trainfit_estimates_total"] == 4
    assert values["trainfit_estimated_peak_bytes_count"] == 2
    assert values["trainfit_http_requests_total"] == 4
    assert values["trainfit_answers_repeated_total"] == 2
    assert values["trainfit_answers_remembered_bytes"] > 10_000


async def test_a_verdict_is_given_again_and_counted(client: AsyncClient) -> None:
    body = json.dumps({**LLAMA_8B, "suggest": False}).encode()
    first, second = [
        await client.post("/v1/fit-check", content=body, headers=JSON) for _ in range(2)
    ]
    assert first.status_code == 200
    assert first.content == second.content
    metrics = (await client.get("/metrics")).text
    assert "trainfit_answers_repeated_total 1.0" in metrics
    verdict = first.json()["verdict"]
    assert f'trainfit_fit_checks_total{{verdict="{verdict}"}} 2.0' in metrics


async def test_another_query_is_another_question(
    client: AsyncClient, worked_out: list[str]
) -> None:
    whole, part = await ask(client), await ask(client, query="?activations=false")
    assert whole.headers["etag"] != part.headers["etag"]
    assert (await ask(client)).content == whole.content
    assert (await ask(client, query="?activations=false")).content == part.content
    assert len(worked_out) == 2


async def test_other_bytes_are_another_question(client: AsyncClient, worked_out: list[str]) -> None:
    assert (await ask(client)).content == (await ask(client, BODY + b" ")).content
    assert len(worked_out) == 2


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running_hub() as hub:
        yield hub


@pytest.fixture
async def online(hub: FakeHub, tmp_path: Path) -> AsyncIterator[AsyncClient]:
    """A client of a service that asks the Hub each time."""
    settings = ServiceSettings(
        hf_endpoint=hub.url, hf_hub_offline=False, hub_ttl_seconds=0, cache_dir=str(tmp_path)
    )
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://service") as client,
    ):
        yield client


NAMED = json.dumps({"model": {"hf_id": "acme/small"}}).encode()


async def test_a_model_that_stands_for_something_else_is_worked_out_anew(
    hub: FakeHub, online: AsyncClient, worked_out: list[str]
) -> None:
    hub.models["acme/small"] = model({**LLAMA, "num_hidden_layers": 2})
    before = (await ask(online, NAMED)).json()
    hub.models["acme/small"] = model({**LLAMA, "num_hidden_layers": 8}, OTHER_COMMIT)
    deadline = time.monotonic() + 10
    while (after := (await ask(online, NAMED)).json())["model"]["revision"] != OTHER_COMMIT:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert before["model"]["revision"] == COMMIT
    assert after["model"]["parameters"]["total"] > before["model"]["parameters"]["total"]
    assert len(worked_out) >= 2


async def test_what_is_known_is_not_worked_out_again_while_the_hub_fails(
    hub: FakeHub, online: AsyncClient, worked_out: list[str]
) -> None:
    hub.models["acme/small"] = model()
    await ask(online, NAMED)
    hub.models["acme/small"] = says(500)
    stale = await ask(online, NAMED)
    for _ in range(5):
        assert (await ask(online, NAMED)).content == stale.content
        await asyncio.sleep(0.01)
    assert "last-known-revision" in stale.text
    assert len(worked_out) <= 2


async def test_what_a_token_opens_is_answered_to_nobody_without_it(
    hub: FakeHub, online: AsyncClient
) -> None:
    hub.models["acme/small"] = only_for("hf_mine", model(), gated)
    for _ in range(2):
        opened = await ask(online, NAMED, token="hf_mine")
        assert opened.status_code == 200
        assert (await ask(online, NAMED)).status_code == 403
        assert (await ask(online, NAMED, token="hf_other")).status_code == 403
    metrics = (await online.get("/metrics")).text
    assert "trainfit_answers_remembered_bytes 0.0" in metrics


async def test_a_problem_is_found_each_time(client: AsyncClient, worked_out: list[str]) -> None:
    body = json.dumps({**LLAMA_8B, "gpu": "none"}).encode()
    for _ in range(2):
        assert (await ask(client, body)).status_code == 422
    assert len(worked_out) == 2


async def test_a_known_body_is_still_refused_as_any_other_would_be(client: AsyncClient) -> None:
    await ask(client)
    other_type = {"content-type": "text/plain"}
    refused = await client.post("/v1/estimate", content=BODY, headers=other_type)
    assert refused.status_code == 415
    packed = await client.post(
        "/v1/estimate", content=BODY, headers={**JSON, "content-encoding": "gzip"}
    )
    assert packed.status_code == 415
    assert (await client.post("/v1/fit-check", content=BODY, headers=JSON)).json()["verdict"]
    assert (await client.post("/v1/estimate:batch", content=BODY, headers=JSON)).is_error
    assert (await ask(client, query="?colour=red")).status_code == 422


async def test_nothing_is_remembered_where_there_is_no_memory_for_it(
    worked_out: list[str],
) -> None:
    async with asking(answer_cache_bytes=0) as client:
        assert (await ask(client)).content == (await ask(client)).content
    assert len(worked_out) == 2


@given(
    limit=st.integers(0, 200_000),
    asked=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9_000)), max_size=60),
)
def test_memory_is_bounded_and_what_was_asked_last_is_kept(
    limit: int, asked: list[tuple[int, int]]
) -> None:
    def size(body: int, document: int) -> int:
        return 8_192 + 8 * body + document + document // 3

    remembered, named = Answers(limit), Model.model_construct(hf_id="gpt2")
    source = ModelSource("gpt2", None, "bundled")
    expected: dict[int, int] = {}
    for body, document in asked:
        sent = RequestKey("estimate", b"", b"x" * body)
        given = Answer(fastapi.Response(b" " * document), named, source, lambda: None)
        if remembered.get(sent) is not None:
            expected[body] = expected.pop(body)
        remembered.add(sent, given)
        expected.pop(body, None)
        expected[body] = document
        while sum(size(*each) for each in expected.items()) > limit:
            expected.pop(next(iter(expected)))
        assert remembered.size_bytes() == sum(size(*each) for each in expected.items()) <= limit
    assert {
        body: len(each.response.body)
        for body in range(10)
        if (each := remembered.get(RequestKey("estimate", b"", b"x" * body)))
    } == expected
