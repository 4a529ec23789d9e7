"""Replicas behind a load balancer share what is public, and none needs the server that holds it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.fake_hub import COMMIT, LLAMA, FakeHub, gated, model, only_for, slow_headers
from tests.redis_server import RedisServer, running_redis
from trainfit.hub.errors import GatedRepoError
from trainfit.hub.hub import Hub
from trainfit.hub.observer import Nobody
from trainfit.hub.shared import _ref

REPO = "acme/small"
TOKEN = "hf_canary"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    with running_redis(folder) as server:
        yield server


@pytest.fixture
def make_replica(make_hub: MakeHub, redis: RedisServer) -> MakeHub:
    """Makes hubs with nothing in common but the server."""

    def make(observer: Any = None, **settings: Any) -> Hub:
        return make_hub(observer, **{"cache_dir": "", "cache_url": redis.url, **settings})

    return make


async def test_replicas_fetch_a_config_once(make_replica: MakeHub, fake: FakeHub) -> None:
    fake.models[REPO] = slow_headers(0.1)
    replicas = [make_replica() for _ in range(4)]
    found = await asyncio.gather(*(each.find(REPO) for each in replicas * 20))
    assert all(each.config.values == LLAMA for each in found)
    assert fake.asked(REPO) == 1
    later = make_replica()
    assert not (await later.find(REPO)).stale
    assert (await make_replica().find(REPO, COMMIT)).ref.commit == COMMIT
    assert fake.asked(REPO) == 1


async def test_what_one_confirms_is_confirmed_for_all(make_replica: MakeHub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    await make_replica(hub_ttl_seconds=0.3).find(REPO)
    await asyncio.sleep(0.4)
    second, third = make_replica(hub_ttl_seconds=0.3), make_replica(hub_ttl_seconds=30.0)
    assert (await second.find(REPO)).stale
    async with asyncio.timeout(5):
        while (await second.find(REPO)).stale:
            await asyncio.sleep(0.01)
    assert not (await third.find(REPO)).stale
    assert fake.asked(REPO) == 2


async def test_a_replica_that_dies_while_it_fetches_is_not_waited_for_long(
    make_replica: MakeHub, fake: FakeHub, redis: RedisServer
) -> None:
    fake.models[REPO] = model()
    with redis.client() as client:
        client.set(f"trainfit:1:turn:{fake.url}:{REPO}:main", b"", px=300)
    assert (await make_replica().find(REPO)).ref.commit == COMMIT


async def test_what_a_token_showed_is_not_shared(
    make_replica: MakeHub, fake: FakeHub, redis: RedisServer
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    await make_replica().find(REPO, token=TOKEN)
    with redis.client() as client:
        assert list(client.scan_iter()) == []
    with pytest.raises(GatedRepoError):
        await make_replica().find(REPO)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        "null",
        "[]",
        '["acme/small", "no commit", 0]',
        json.dumps([REPO, COMMIT, "yesterday"]),
        json.dumps([REPO, COMMIT, 1e99]),
    ],
)
async def test_what_another_wrote_is_not_believed(
    make_replica: MakeHub, fake: FakeHub, redis: RedisServer, value: str
) -> None:
    fake.models[REPO] = model()
    with redis.client() as client:
        client.set(f"trainfit:1:ref:{fake.url}:{REPO}:main", value)
        client.set(f"trainfit:1:config:{fake.url}:{REPO}:{COMMIT}", b"<html>")
    observer = Mock(spec=Nobody)
    assert (await make_replica(observer).find(REPO)).config.values == LLAMA
    observer.entry_malformed.assert_called_with("shared")


async def test_a_server_that_is_killed_and_started_again_costs_no_answer(
    make_replica: MakeHub,
    fake: FakeHub,
    redis: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainfit.hub.replicas.REST_SECONDS", 0.05)
    repos = [f"acme/m{number}" for number in range(240)]
    fake.models |= dict.fromkeys([*repos, "acme/last"], slow_headers(0.002))
    replicas = [make_replica() for _ in range(2)]

    async def load(part: list[str]) -> None:
        for start in range(0, len(part), 10):
            asked = [hub.find(repo) for repo in part[start : start + 10] for hub in replicas]
            assert all(each.config.values == LLAMA for each in await asyncio.gather(*asked))

    await load(repos[:80])
    await asyncio.gather(load(repos[80:160]), asyncio.to_thread(redis.kill))
    await asyncio.gather(load(repos[160:]), asyncio.to_thread(redis.start))
    with redis.client() as client:
        kept = {key.split(b":")[-2].decode() for key in client.scan_iter("trainfit:1:ref:*:main")}
        assert set(repos[:40]) <= kept < set(repos)
        async with asyncio.timeout(10):
            while not client.exists(f"trainfit:1:ref:{fake.url}:acme/last:main"):
                await make_replica().pull("acme/last")


async def test_a_server_that_hangs_costs_a_moment_once(make_hub: MakeHub, fake: FakeHub) -> None:
    """It takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        hub = make_hub(cache_url=f"redis://127.0.0.1:{port}")
        fake.models |= {f"acme/m{number}": model() for number in range(10)}
        async with asyncio.timeout(2):
            for repo in fake.models:
                await hub.find(repo)


async def test_a_password_in_the_address_is_not_logged(
    make_hub: MakeHub, fake: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    hub = make_hub(cache_url="redis://:canary@127.0.0.1:1/0")
    fake.models[REPO] = model()
    await hub.find(REPO)
    assert caplog.records
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 100_000,
        json.dumps([REPO, COMMIT, 10**400]).encode(),
        json.dumps([REPO, COMMIT, float("nan")]).encode(),
        json.dumps([REPO, COMMIT, float("inf")]).encode(),
        json.dumps([REPO, COMMIT, True]).encode(),
        json.dumps([REPO, "main", 1.0]).encode(),
        b"9" * 5000,
        None,
    ],
)
def test_what_nobody_of_us_wrote_is_no_ref(value: bytes | None) -> None:
    assert _ref(value) is None
