"""Models of the Hub over HTTP: found, cached, refused, and answered without it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import httpx
import pytest
from httpx import ASGITransport, AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from tests.api.kubernetes.objects import JOB as OBJECT
from tests.api.kubernetes.objects import annotated, review
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    OTHER_COMMIT,
    Answer,
    FakeHub,
    gated,
    model,
    once,
    only_for,
    repo_not_found,
    running_hub,
    says,
    slow_headers,
)
from tests.redis_server import running_redis
from tests.serving import running_service, start
from trainfit.api.api_keys import named, new_key
from trainfit.api.app import create_app
from trainfit.api.examples import LLAMA_8B, MODEL_EXAMPLES
from trainfit.api.models import look_up
from trainfit.api.openapi import openapi_bytes
from trainfit.api.routes import estimate
from trainfit.api.settings import ServiceSettings

REPO = "acme/small"
BUNDLED = "Qwen/Qwen3-8B"
TOKEN = "hf_hunter2"

Serve = Callable[..., Any]


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running_hub() as hub:
        yield hub


@pytest.fixture
async def serve(fake: FakeHub, tmp_path: Path) -> AsyncIterator[Serve]:
    """Starts services in this process that ask the fake hub and share a folder; keywords are
    settings.
    """
    async with AsyncExitStack() as opened:

        async def start(**settings: Any) -> AsyncClient:
            given = {
                "hf_endpoint": fake.url,
                "hf_hub_offline": False,
                "cache_dir": str(tmp_path / "cache"),
                "hub_timeout_seconds": 10.0,
                "hub_connect_timeout_seconds": 1.0,
            }
            app = create_app(ServiceSettings(**{**given, **settings}))
            await opened.enter_async_context(app.router.lifespan_context(app))
            return await opened.enter_async_context(
                AsyncClient(transport=ASGITransport(app), base_url="http://service")
            )

        yield start


def job(hf_id: str = REPO, **model: Any) -> dict[str, Any]:
    return {"model": {"hf_id": hf_id, **model}, "gpu": "H100-80GB"}


async def estimated(client: AsyncClient, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    """An answer without a replay, which nothing of a model turns on: what takes time is asking."""
    response = await client.post("/v1/estimate?replay=false", json=body, headers=headers)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def assumed(answer: dict[str, Any]) -> set[str]:
    return {each["id"] for each in answer["assumptions"]}


async def test_any_public_model_is_answered_at_its_commit(serve: Serve, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    answer = await estimated(await serve(), job())
    assert (answer["model"]["name"], answer["model"]["source"]) == (REPO, "hub")
    assert answer["model"]["revision"] == COMMIT
    assert answer["job"]["model"] == {"hf_id": REPO, "revision": COMMIT}
    assert "last-known-revision" not in assumed(answer)


async def test_the_normalised_job_is_the_same_question_for_ever(
    serve: Serve, fake: FakeHub
) -> None:
    client = await serve()
    fake.models[REPO] = model()
    first = await estimated(client, job())
    fake.models[REPO] = model({**LLAMA, "num_hidden_layers": 8}, OTHER_COMMIT)
    again = await estimated(client, first["job"])
    assert again["request_digest"] == first["request_digest"]
    assert again["model"] == first["model"]


async def test_another_commit_is_another_digest(serve: Serve, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    first = await estimated(await serve(cache_dir=""), job())
    fake.models[REPO] = model(commit=OTHER_COMMIT)
    second = await estimated(await serve(cache_dir=""), job())
    assert first["stages"] == second["stages"]
    assert first["request_digest"] != second["request_digest"]


async def test_the_hub_is_preferred_to_the_package(serve: Serve, fake: FakeHub) -> None:
    fake.models[BUNDLED] = model()
    online = await estimated(await serve(), job(BUNDLED))
    assert (online["model"]["source"], online["model"]["revision"]) == ("hub", COMMIT)
    offline = await estimated(await serve(cache_dir="", hf_hub_offline=True), job(BUNDLED))
    assert (offline["model"]["source"], offline["model"]["revision"]) == ("bundled", None)
    assert online["request_digest"] != offline["request_digest"]


@pytest.mark.parametrize(
    "answer",
    [
        gated,
        repo_not_found,
        says(500),
        says(429),
        slow_headers(),
        says(200, b"<html>"),
        model({"model_type": "of the future"}),
        says(307, location="/Qwen/Qwen3-8B-renamed/resolve/main/config.json"),
    ],
)
async def test_the_package_is_the_last_resort(serve: Serve, fake: FakeHub, answer: Answer) -> None:
    fake.models[BUNDLED] = answer
    client = await serve(hub_connect_timeout_seconds=0.3)
    for _ in range(2):
        begin = monotonic()
        assert (await estimated(client, job(BUNDLED)))["model"]["source"] == "bundled"
        assert monotonic() - begin < 2


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "http://hub.invalid"])
async def test_without_a_network_bundled_models_are_answered_at_once(
    serve: Serve, endpoint: str
) -> None:
    client = await serve(hf_endpoint=endpoint)
    begin = monotonic()
    await estimated(client, job(BUNDLED))
    assert monotonic() - begin < 2
    begin = monotonic()
    for hf_id in ("deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-8B", BUNDLED):
        await estimated(client, job(hf_id))
    assert monotonic() - begin < 1


async def test_the_package_answers_for_main_only(serve: Serve, fake: FakeHub) -> None:
    client = await serve(hf_hub_offline=True)
    assert (await estimated(client, job(BUNDLED, revision="main")))["model"]["source"] == "bundled"
    response = await client.post("/v1/estimate", json=job(BUNDLED, revision="v1"))
    assert response.json()["type"] == "/problems/unknown-model"
    assert fake.requests == []


async def test_two_hundred_first_requests_are_one_fetch(
    serve: Serve, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub says nothing until all of them have asked, however long this process takes to read
    them, so its own time limit must not pass meanwhile: that counts what the process does itself.
    """
    asking, all_ask = 0, Event()

    async def counted(*given: Any) -> Any:
        nonlocal asking
        asking += 1
        if asking == 200:
            all_ask.set()
        return await look_up(*given)

    monkeypatch.setattr(estimate, "look_up", counted)
    fake.models[REPO] = once(all_ask)
    client = await serve(
        max_concurrent_requests=256, hub_timeout_seconds=300.0, request_timeout_seconds=300.0
    )
    answers = await asyncio.gather(*(estimated(client, job()) for _ in range(200)))
    assert fake.asked(REPO) == 1
    assert len({answer["request_digest"] for answer in answers}) == 1


async def test_a_restart_without_a_network_answers_every_model_seen_before(
    serve: Serve, fake: FakeHub
) -> None:
    fake.models |= {f"acme/m{number}": model() for number in range(10)}
    before = await serve()
    first = [await estimated(before, job(repo)) for repo in fake.models]
    after = await serve(hf_hub_offline=True)
    again = [await estimated(after, job(repo)) for repo in fake.models]
    assert [each["request_digest"] for each in again] == [each["request_digest"] for each in first]


async def test_what_is_not_confirmed_is_marked_and_has_no_age(serve: Serve, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    fresh = await estimated(await serve(), job())
    client = await serve(hub_ttl_seconds=0.0, hf_hub_offline=True)
    stale = await estimated(client, job())
    assert assumed(stale) - assumed(fresh) == {"last-known-revision"}
    assert stale["request_digest"] != fresh["request_digest"]
    assert stale["warnings"] == fresh["warnings"]
    await asyncio.sleep(1.1)
    assert await estimated(client, job()) == stale
    check = await client.post("/v1/fit-check", json=job())
    assert check.json()["verdict"] == "fits"


ADAPTER = model({"base_model_name_or_path": "acme/base"}, file="adapter_config.json")
RENAMED = says(307, location="/acme/new/resolve/main/config.json")
PROBLEMS: dict[str, tuple[Answer, int, str, str | None]] = {
    "unknown-model": (repo_not_found, 422, "/model/hf_id", None),
    "unknown-revision": (says(404, x_error_code="RevisionNotFound"), 422, "/model/revision", None),
    "renamed-model": (RENAMED, 422, "/model/hf_id", "acme/new"),
    "adapter-model": (ADAPTER, 422, "/model/hf_id", "acme/base"),
    "model-without-config": (says(404, x_error_code="EntryNotFound"), 422, "/model/hf_id", None),
    "gated-model": (gated, 403, "/model/hf_id", None),
    "unsupported-model": (model({"model_type": "perceptron"}), 422, "/model/hf_id", None),
    "invalid-model": (model({"model_type": "llama", "vocab_size": "7"}), 422, "/model/hf_id", None),
}
OUTAGES: dict[str, tuple[Answer, int, str | None]] = {
    "hub-unavailable": (says(500), 503, "5"),
    "hub-rate-limited": (says(429, ratelimit='"resolvers";r=0;t=77'), 503, "77"),
    "hub-timeout": (slow_headers(), 504, "5"),
    "hub-answer": (says(200, b"<html>"), 502, "5"),
}


@pytest.mark.parametrize("slug", PROBLEMS)
@pytest.mark.parametrize("path", ["/v1/estimate", "/v1/fit-check", "/v1/models:resolve"])
async def test_what_the_hub_refuses_has_its_problem(
    serve: Serve, fake: FakeHub, slug: str, path: str
) -> None:
    fake.models[REPO], status, pointer, instead = PROBLEMS[slug]
    body = {"model": {"hf_id": REPO}} if path.endswith("resolve") else job()
    response = await (await serve()).post(path, json=body)
    problem = response.json()
    assert (response.status_code, problem["type"]) == (status, f"/problems/{slug}")
    (error,) = problem["errors"]
    assert error["pointer"] == pointer
    wanted = [{"op": "replace", "path": pointer, "value": instead}] if instead else []
    assert error["suggestion"] == wanted
    assert "retry-after" not in response.headers


@pytest.mark.parametrize("slug", OUTAGES)
async def test_an_outage_of_the_hub_says_when_to_ask_again(
    serve: Serve, fake: FakeHub, slug: str
) -> None:
    fake.models[REPO], status, retry_after = OUTAGES[slug]
    client = await serve(hub_timeout_seconds=0.3 if slug == "hub-timeout" else 10.0)
    response = await client.post("/v1/estimate", json=job())
    problem = response.json()
    assert (response.status_code, problem["type"]) == (status, f"/problems/{slug}")
    assert response.headers.get("retry-after") == retry_after
    assert problem["detail"].endswith(f"; ask again in {retry_after} s")


async def test_organisations_that_are_not_on_the_list(serve: Serve, fake: FakeHub) -> None:
    client = await serve(hub_organisations="acme")
    response = await client.post("/v1/estimate", json=job("evil/small"))
    assert response.status_code == 403
    assert response.json()["type"] == "/problems/model-not-allowed"
    assert (await estimated(client, job(BUNDLED)))["model"]["source"] == "bundled"
    assert fake.requests == []


async def test_a_misspelt_name_is_told_what_is_close(serve: Serve) -> None:
    response = await (await serve()).post("/v1/estimate", json=job("Qwen/Qwen3-9B"))
    (error,) = response.json()["errors"]
    assert error["suggestion"][0]["value"] == "Qwen/Qwen3.5-9B"


@pytest.mark.parametrize("path", ["/v1/estimate:batch", "/v1/compare"])
async def test_models_of_many_jobs_are_looked_up_at_once(
    serve: Serve, fake: FakeHub, path: str
) -> None:
    fake.models |= {f"acme/m{number}": slow_headers(0.1) for number in range(8)}
    ids = [*fake.models, "acme/nothing", BUNDLED]
    jobs = [{"id": hf_id, "job": job(hf_id)} for hf_id in (*ids, *ids)]
    for number, each in enumerate(jobs):
        each["id"] = str(number)
    jobs.append({"id": "no job", "job": {"model": {"hf_id": 7}}})
    client = await serve()
    begin = monotonic()
    response = await client.post(path, json={"jobs": jobs})
    assert monotonic() - begin < 5
    problems = [each["problem"] and each["problem"]["type"] for each in response.json()["jobs"]]
    expected = [None] * 8 + ["/problems/unknown-model", None]
    assert problems == [*expected, *expected, "/problems/invalid-job"]
    assert all(fake.asked(f"acme/m{number}") == 1 for number in range(8))


async def test_a_change_may_name_another_model(serve: Serve, fake: FakeHub) -> None:
    fake.models |= {REPO: model(), "acme/large": model({**LLAMA, "num_hidden_layers": 8})}
    patch = [{"op": "replace", "path": "/model/hf_id", "value": "acme/large"}]
    wrong = [{"op": "replace", "path": "/model/nothing", "value": 7}]
    body = {
        "job": job(),
        "changes": [{"id": "larger", "patch": patch}, {"id": "wrong", "patch": wrong}],
    }
    response = await (await serve()).post("/v1/compare", json=body)
    larger, refused = response.json()["jobs"]
    assert larger["comparison"]["difference_bytes"] > 0
    assert refused["problem"]["type"] == "/problems/invalid-patch"


async def test_suggestions_and_limits_price_the_model_that_was_found(
    serve: Serve, fake: FakeHub
) -> None:
    fake.models[REPO] = model()
    body = {**job(), "gpu": {"memory_bytes": 3 * 2**30}, "limits": {"micro_batch_size": True}}
    answer = (await (await serve()).post("/v1/fit-check", json=body)).json()
    assert answer["suggestions"]
    assert fake.asked(REPO) == 1


async def test_a_token_of_ones_own_opens_what_is_ones_own(serve: Serve, fake: FakeHub) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    client = await serve()
    for _ in range(2):
        with_token = {"x-hf-token": TOKEN}
        assert (await estimated(client, job(), **with_token))["model"]["revision"] == COMMIT
        for headers in ({}, {"x-hf-token": "hf_other"}):
            response = await client.post("/v1/estimate", json=job(), headers=headers)
            assert response.json()["type"] == "/problems/gated-model"


@pytest.mark.parametrize("token", ["", "two words", "hf_\x7f", "hf_\xe9", "x" * 257])
async def test_what_is_no_token_is_refused_and_not_repeated(serve: Serve, token: str) -> None:
    headers = {"x-hf-token": token.encode("latin-1")}
    response = await (await serve()).post("/v1/estimate", json=job(), headers=headers)
    assert response.status_code == 422
    assert response.json()["type"] == "/problems/invalid-parameter"
    assert not token or token not in response.text


async def test_what_a_model_resolves_to(serve: Serve, fake: FakeHub) -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "awq"}, "torch_dtype": "float16"}
    fake.models[REPO] = model(config)
    client = await serve()
    response = await client.post("/v1/models:resolve", json={"model": {"hf_id": REPO}})
    summary = response.json()
    assert {name: summary[name] for name in ("name", "source", "revision", "stale")} == {
        "name": REPO,
        "source": "hub",
        "revision": COMMIT,
        "stale": False,
    }
    assert 0 <= summary["age_seconds"] < 60
    assert (summary["quantization"], summary["dtype"]) == ("awq", "float16")
    architecture = summary["architecture"]
    assert (architecture["num_layers"], architecture["hidden_size"]) == (4, 512)
    assert architecture["layer_kinds"] == [{"layers": 4, "blocks": ["attention", "mlp"]}]
    answer = await estimated(client, job())
    assert architecture["parameters"] == answer["model"]["parameters"]
    defaulted = {each["pointer"]: each["value"] for each in summary["defaulted"]}
    assert defaulted["/attention_bias"] is False
    assert not defaulted.keys() & {f"/{name}" for name in config}
    assert summary["config"] == config


async def test_a_commit_has_no_age(serve: Serve, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    body = {"model": {"hf_id": REPO, "revision": COMMIT}}
    summary = (await (await serve()).post("/v1/models:resolve", json=body)).json()
    assert (summary["revision"], summary["age_seconds"]) == (COMMIT, None)


@pytest.mark.parametrize("name", MODEL_EXAMPLES)
async def test_the_documented_examples_are_answered(serve: Serve, name: str) -> None:
    client = await serve(hf_hub_offline=True)
    body = MODEL_EXAMPLES[name]["value"]
    assert (await client.post("/v1/models:resolve", json=body)).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        {"hf_id": "deepseek-ai/DeepSeek-V3"},
        {"hf_config": LLAMA},
        {
            "spec": {
                "num_layers": 4,
                "hidden_size": 512,
                "num_attention_heads": 8,
                "vocab_size": 32000,
                "position_embedding_type": "rope",
            }
        },
    ],
)
async def test_every_kind_of_model_can_be_resolved(serve: Serve, given: dict[str, Any]) -> None:
    client = await serve(hf_hub_offline=True)
    response = await client.post("/v1/models:resolve", json={"model": given})
    assert response.status_code == 200, response.text
    assert response.json()["age_seconds"] is None


@pytest.mark.parametrize(
    "hf_id",
    [
        "a/b/c",
        "a--b",
        "a/b--c",
        "a..b",
        "a/b.git",
        "a/b-",
        "a/b.",
        "-a/b",
        "a/.b",
        "a b",
        "a/" * 60,
    ],
)
async def test_the_rules_of_the_hub_for_ids(serve: Serve, fake: FakeHub, hf_id: str) -> None:
    response = await (await serve()).post("/v1/estimate", json=job(hf_id))
    assert response.json()["type"] == "/problems/invalid-job"
    assert fake.requests == []


@pytest.mark.parametrize("revision", ["..", "a/../b", "a//b", "/a", "a/", "a b", "a?b", "a%2fb"])
async def test_the_rules_for_revisions(serve: Serve, fake: FakeHub, revision: str) -> None:
    response = await (await serve()).post("/v1/estimate", json=job(revision=revision))
    assert response.json()["type"] == "/problems/invalid-job"
    assert fake.requests == []


async def test_the_webhook_knows_what_is_cached_and_asks_nobody(
    serve: Serve, fake: FakeHub
) -> None:
    fake.models[REPO] = model()
    client = await serve()

    async def verdict(hf_id: str) -> str:
        asked = {**job(hf_id), "parallelism": {"num_gpus": 8}}
        answer = await client.post("/v1/admission", json=review(annotated(OBJECT, asked)))
        told: str = answer.json()["response"]["auditAnnotations"]["verdict"]
        return told

    assert (await verdict(REPO), await verdict(BUNDLED)) == ("not_checked", "does_not_fit")
    assert fake.requests == []
    await estimated(client, job())
    assert await verdict(REPO) == "fits"
    assert fake.asked(REPO) == 1


async def test_what_the_hub_does_is_counted(serve: Serve, fake: FakeHub) -> None:
    client = await serve()
    fake.models |= {REPO: model(), "acme/closed": gated}
    for hf_id in (REPO, REPO, "acme/closed"):
        await client.post("/v1/estimate", json=job(hf_id))
    again = await serve()
    await again.post("/v1/estimate", json=job())
    assert await counted(client, "trainfit_hub_requests_total", "outcome") == {
        "found": 1,
        "gated": 1,
    }
    found = "trainfit_models_found_total"
    layers = {"memory": 0, "disk": 0, "shared": 0, "huggingface": 0, "hub": 0}
    assert await counted(client, found, "layer") == {**layers, "memory": 1, "hub": 1}
    assert await counted(again, found, "layer") == {**layers, "disk": 1}
    text = (await client.get("/metrics")).text
    assert "trainfit_hub_cache_entries 2.0" in text
    assert "trainfit_hub_request_duration_seconds_count 2.0" in text


async def counted(client: AsyncClient, name: str, label: str) -> dict[str, float]:
    text = (await client.get("/metrics")).text
    return {
        sample.labels[label]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_a_shared_cache_that_comes_and_goes_fails_no_request(
    serve: Serve, fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainfit.hub.replicas.REST_SECONDS", 0.05)
    fake.models |= {f"acme/m{number}": slow_headers(0.002) for number in range(120)}
    folder = tmp_path / "redis"
    folder.mkdir()
    with running_redis(folder) as redis:
        settings = {"cache_url": redis.url, "cache_dir": ""}
        replicas = [await serve(**settings), await serve(**settings)]

        repos = list(fake.models)

        async def load(part: list[str]) -> None:
            for first in range(0, len(part), 5):
                batch = part[first : first + 5]
                await asyncio.gather(
                    *(estimated(each, job(repo)) for repo in batch for each in replicas)
                )

        await load(repos[:40])
        await asyncio.gather(load(repos[40:80]), asyncio.to_thread(redis.kill))
        await asyncio.gather(load(repos[80:]), asyncio.to_thread(redis.start))
        third = await serve(**settings, hf_hub_offline=True)
        await estimated(third, job(repos[0]))


def test_no_secret_is_told(fake: FakeHub, tmp_path: Path) -> None:
    """Tokens, ids and bodies stay out of logs, metrics, errors and another caller's answers."""
    fake.models["hunter2/closed"] = only_for(TOKEN, model(), gated)
    fake.models["hunter2/broken"] = only_for(TOKEN, says(200, b"hunter2"), gated)
    fake.models["hunter2/slow"] = slow_headers()
    folder = tmp_path / "cache"
    environment = {
        "HF_ENDPOINT": fake.url,
        "HF_HUB_OFFLINE": "0",
        "HF_TOKEN": "hf_hunter2_of_the_service",
        "TRAINFIT_HUB_ORGANISATIONS": "hunter2",
        "TRAINFIT_CACHE_DIR": str(folder),
        "TRAINFIT_CACHE_URL": "redis://:hunter2@127.0.0.1:1/0",
        "TRAINFIT_HUB_TIMEOUT_SECONDS": "1.5",
        "TRAINFIT_LOG_LEVEL": "debug",
    }
    told = []
    with running_service(**environment) as service:
        for hf_id in ("hunter2/closed", "hunter2/broken", "hunter2/slow", "hunter2/none"):
            for headers in ({}, {"x-hf-token": TOKEN}, {"x-hf-token": "hf_hunter2 x"}):
                body = {**LLAMA_8B, "model": {"hf_id": hf_id, "revision": "hunter2"}}
                answer = httpx.post(f"{service.url}/v1/estimate", json=body, headers=headers)
                mine = headers.get("x-hf-token") == TOKEN and hf_id == "hunter2/closed"
                assert (answer.status_code == 200) == mine
                told += [] if mine else [answer.text, str(answer.headers)]
        told.append(httpx.get(f"{service.url}/metrics").text)
        service.process.send_signal(signal.SIGTERM)
        _, log = service.process.communicate(timeout=10)
    assert log
    assert "hunter2" not in log
    assert not any("hunter2" in each for each in told)
    kept = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"hunter2/closed" in kept
    assert b"hf_hunter2" not in kept
    sent = {each.headers.get("authorization") for each in fake.requests}
    assert sent == {None, f"Bearer {TOKEN}", "Bearer hf_hunter2_of_the_service"}


def test_the_client_is_quiet_about_what_it_asks() -> None:
    import trainfit.hub.client  # noqa: F401

    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)
    assert not logging.getLogger("httpcore").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"HF_TOKEN": TOKEN}, "TRAINFIT_HUB_ORGANISATIONS"),
        ({"HF_TOKEN_PATH": "/nowhere"}, "TRAINFIT_HUB_ORGANISATIONS"),
        ({"HF_TOKEN_PATH": "/nowhere", "TRAINFIT_HUB_ORGANISATIONS": "acme"}, "HF_TOKEN_PATH"),
    ],
)
def test_a_token_for_everyone_is_refused(environment: dict[str, str], word: str) -> None:
    process = start(environment)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 1
    assert word in log
    assert TOKEN not in log
    assert "Traceback" not in log


def test_a_token_for_callers_with_keys_is_taken() -> None:
    keys = str(named("portal", new_key()))
    with running_service(HF_TOKEN=TOKEN, TRAINFIT_API_KEYS=keys) as service:
        assert httpx.get(f"{service.url}/readyz").status_code == 200


def test_answers_hold_no_time(fake: FakeHub) -> None:
    """`age` is for models:resolve alone."""
    schema = json.loads(openapi_bytes(create_app(ServiceSettings())))["components"]["schemas"]
    with_age = {name for name, each in schema.items() if "age_seconds" in json.dumps(each)}
    assert with_age == {"ModelSummary"}
    assert fake.requests == []
