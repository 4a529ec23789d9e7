"""Callers with a key, where the operator has set any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from httpx import ASGITransport, AsyncClient

from tools.openapi import DOCUMENT
from trainfit.api import unread_bodies
from trainfit.api.api_keys import KEY, ApiKey, named, new_key, owner, read_entries
from trainfit.api.app import create_app
from trainfit.api.examples import LLAMA_8B
from trainfit.api.settings import ServiceSettings

CI, PORTAL, NEW_PORTAL, STRANGER = (new_key() for _ in range(4))
KEYS = (named("ci", CI), named("portal", PORTAL), named("portal", NEW_PORTAL))


OPERATIONS = [
    (method.upper(), path)
    for path, methods in json.loads(DOCUMENT.read_text("utf-8"))["paths"].items()
    for method in methods
]


@asynccontextmanager
async def guarded(*, metrics_need_key: bool = False) -> AsyncIterator[AsyncClient]:
    """A client without a key of a service that wants one."""
    app = create_app(ServiceSettings(api_keys=KEYS, metrics_need_key=metrics_need_key))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://service") as client:
        yield client


def bearing(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_keys_are_long_random_and_recognised() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(KEY.fullmatch(key) for key in keys)


def test_entries_stand_between_commas_or_white_space() -> None:
    text = "\n".join(map(str, KEYS[:2])) + f", {KEYS[2]},\n"
    assert read_entries(text) == KEYS
    assert read_entries("") == ()


@pytest.mark.parametrize("text", ["ci", "ci=", f"=ci{'0' * 62}", f"ci={'g' * 64}", f"é={'0' * 64}"])
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="trainfit keys new"):
        read_entries(text)


@pytest.mark.parametrize(
    ("authorization", "label"),
    [
        ("Bearer {ci}", "ci"),
        ("bearer   {ci} ", "ci"),
        ("Bearer {portal}", "portal"),
        ("Bearer {new_portal}", "portal"),
        ("Bearer {stranger}", None),
        ("Bearer {cut}", None),
        ("Basic {ci}", None),
        ("{ci}", None),
        ("Bearer ", None),
        ("", None),
        ("Bearer " + "A" * 100_000, None),
        ("Bearer é", None),
    ],
)
def test_a_key_is_known_by_its_digest(authorization: str, label: str | None) -> None:
    keys = {"ci": CI, "portal": PORTAL, "new_portal": NEW_PORTAL, "stranger": STRANGER}
    assert owner(authorization.format(**keys, cut=CI[:-1]), KEYS) == label


def test_a_secret_that_is_no_generated_key_is_refused_even_where_its_digest_is_set() -> None:
    keys = (ApiKey("weak", named("weak", "password").digest),)
    assert owner("Bearer password", keys) is None


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_no_operation_answers_without_a_key_nor_waits_for_a_body(
    method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_bodies, "LINGER_SECONDS", 0.01)

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    headers = {"content-type": "application/json"}
    async with guarded() as client:
        content = body() if method == "POST" else None
        bare = await client.request(method, path, content=content, headers=headers)
        wrong = await client.request(method, path, headers={**headers, **bearing(STRANGER)})
        right = await client.request(method, path, headers={**headers, **bearing(CI)})
    assert bare.status_code == wrong.status_code == 401
    assert bare.json()["type"] == "/problems/unauthenticated"
    assert bare.headers["www-authenticate"] == 'Bearer realm="trainfit"'
    assert wrong.headers["www-authenticate"] == 'Bearer realm="trainfit", error="invalid_token"'
    assert STRANGER not in wrong.text
    assert right.status_code == (400 if method == "POST" else 200)


async def test_a_job_is_answered_with_any_of_the_keys() -> None:
    async with guarded() as client:
        for key in (CI, PORTAL, NEW_PORTAL):
            response = await client.post("/v1/estimate", json=LLAMA_8B, headers=bearing(key))
            assert response.status_code == 200


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/problems/not-found"]
)
async def test_what_probes_and_readers_ask_stays_open(path: str) -> None:
    async with guarded() as client:
        assert (await client.get(path)).status_code == 200


async def test_metrics_can_be_kept_to_callers_with_a_key() -> None:
    async with guarded(metrics_need_key=True) as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=bearing(CI))).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


async def test_without_keys_nothing_is_asked_for(client: AsyncClient) -> None:
    response = await client.get("/v1/gpus", headers=bearing(STRANGER))
    assert response.status_code == 200
