"""What was found is known: for a while under a branch, for ever under a commit, Hub or no Hub."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.hub.conftest import Clock, MakeHub
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    OTHER_COMMIT,
    FakeHub,
    model,
    repo_not_found,
    says,
    slow_headers,
)
from trainfit.hub import memory as memory_module
from trainfit.hub.config_json import held_bytes, read_config
from trainfit.hub.disk import FILE, Disk
from trainfit.hub.entries import ConfigKey, HubConfig, Ref
from trainfit.hub.errors import (
    HubError,
    MissingRepoError,
    NotAllowedError,
    OfflineError,
    SlowHubError,
    UnreachableError,
)
from trainfit.hub.hub import REFUSED_SECONDS, Hub
from trainfit.hub.memory import Memory, Remembered
from trainfit.hub.observer import Nobody
from trainfit.hub.settings import HubSettings

REPO = "acme/small"
LARGER = {**LLAMA, "num_hidden_layers": 8}


HOUR = 3600.0


async def until_asked(fake: FakeHub, times: int) -> None:
    async with asyncio.timeout(10):
        while fake.asked(REPO) < times:
            await asyncio.sleep(0.01)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await holds():
            await asyncio.sleep(0.01)


async def test_a_second_question_asks_nobody(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    first, second = await hub.find(REPO), await hub.find(REPO)
    assert second.config is first.config
    assert fake.asked(REPO) == 1


async def test_a_commit_that_a_branch_named_is_known_too(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    found = await hub.find(REPO)
    assert (await hub.find(REPO, COMMIT)).config is found.config
    assert fake.asked(REPO) == 1


async def test_many_at_once_are_one_question(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = slow_headers(0.1)
    found = await asyncio.gather(*(hub.find(REPO) for _ in range(200)))
    assert len({id(each.config) for each in found}) == 1
    assert fake.asked(REPO) == 1


async def test_who_goes_away_does_not_take_the_answer_along(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = slow_headers(0.2)
    first = asyncio.create_task(hub.find(REPO))
    await until_asked(fake, 1)
    second = asyncio.create_task(hub.find(REPO))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).config.values == LLAMA
    assert first.cancelled()
    assert fake.asked(REPO) == 1


async def test_an_answer_that_comes_too_late_is_kept(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = slow_headers(0.3)
    with pytest.raises(SlowHubError):
        await hub.find(REPO, patience=0.05)
    assert not (await hub.find(REPO)).stale
    assert fake.asked(REPO) == 1


async def test_a_branch_that_moves_is_answered_once_more_and_then_anew(
    hub: Hub, fake: FakeHub, clock: Clock
) -> None:
    fake.models[REPO] = model()
    await hub.find(REPO)
    fake.models[REPO] = model(LARGER, OTHER_COMMIT)
    assert not (await hub.find(REPO)).stale
    clock.ahead = HOUR
    old = await hub.find(REPO)
    assert (old.ref.commit, old.stale) == (COMMIT, True)

    async def moved() -> bool:
        return (await hub.find(REPO)).ref.commit == OTHER_COMMIT

    await until(moved)
    new = await hub.find(REPO)
    assert (new.config.values, new.stale) == (LARGER, False)
    pinned = await hub.find(REPO, COMMIT)
    assert (pinned.config.values, pinned.stale) == (LLAMA, False)
    assert fake.asked(REPO) == 2


async def test_a_commit_that_stays_keeps_what_was_made_of_it(
    hub: Hub, fake: FakeHub, clock: Clock
) -> None:
    fake.models[REPO] = model()
    first = await hub.find(REPO)
    clock.ahead = HOUR
    assert (await hub.find(REPO)).stale

    async def confirmed() -> bool:
        return not (await hub.find(REPO)).stale

    await until(confirmed)
    assert (await hub.find(REPO)).config is first.config


@pytest.mark.parametrize("answer", [says(500), slow_headers(), says(429), says(200, b"<html>")])
async def test_what_was_known_is_answered_where_the_hub_fails(
    make_hub: MakeHub, fake: FakeHub, answer: Any
) -> None:
    fake.models[REPO] = model()
    await make_hub().find(REPO)
    hub = make_hub(hub_ttl_seconds=0.0, hub_timeout_seconds=0.3)
    fake.models[REPO] = answer
    for _ in range(3):
        found = await hub.find(REPO)
        assert (found.ref.commit, found.stale) == (COMMIT, True)
        await asyncio.sleep(0.2)


async def test_a_restart_without_a_network_loses_nothing(make_hub: MakeHub, fake: FakeHub) -> None:
    before = make_hub()
    fake.models |= {f"acme/m{number}": model() for number in range(20)}
    for repo in fake.models:
        await before.find(repo)
    await before.aclose()
    after = make_hub(hf_hub_offline=True)
    for repo in fake.models:
        assert (await after.find(repo)).config.values == LLAMA
        assert (await after.find(repo, COMMIT)).ref.commit == COMMIT
    assert len(fake.requests) == 20
    with pytest.raises(OfflineError):
        await after.find("acme/unknown")


async def test_two_processes_share_a_folder(make_hub: MakeHub, fake: FakeHub) -> None:
    fake.models |= {f"acme/m{number}": slow_headers(0.01) for number in range(30)}
    hubs = [make_hub() for _ in range(4)]
    found = await asyncio.gather(*(hub.find(repo) for repo in fake.models for hub in hubs))
    assert all(each.config.values == LLAMA for each in found)
    again = make_hub(hf_hub_offline=True)
    assert all([not (await again.find(repo)).stale for repo in fake.models])


async def test_endpoints_share_a_folder_and_no_models(make_hub: MakeHub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    await make_hub().find(REPO)
    other = make_hub(hf_endpoint="http://127.0.0.1:1", hf_hub_offline=True)
    with pytest.raises(OfflineError):
        await other.find(REPO)


async def test_a_refusal_is_remembered_for_a_while(hub: Hub, fake: FakeHub, clock: Clock) -> None:
    for _ in range(3):
        with pytest.raises(MissingRepoError):
            await hub.find(REPO)
    assert fake.asked(REPO) == 1
    fake.models[REPO] = model()
    clock.ahead = REFUSED_SECONDS
    assert (await hub.find(REPO)).ref.commit == COMMIT


async def test_with_another_answer_at_hand_nobody_waits_for_a_refusal_twice(
    hub: Hub, fake: FakeHub, clock: Clock
) -> None:
    with pytest.raises(MissingRepoError):
        await hub.find(REPO, patience=10)
    fake.models[REPO] = slow_headers(0.1)
    clock.ahead = REFUSED_SECONDS
    with pytest.raises(MissingRepoError):
        await hub.find(REPO, patience=10)

    async def found() -> bool:
        with suppress(MissingRepoError):
            return (await hub.find(REPO, patience=10)).ref.commit == COMMIT
        return False

    await until(found)
    assert fake.asked(REPO) == 2


async def test_a_model_that_is_gone_is_gone_until_the_hub_is(
    hub: Hub, fake: FakeHub, clock: Clock
) -> None:
    """Deleted, it is refused; but nobody's portal that answers 404 to all makes us forget it."""
    fake.models[REPO] = model()
    await hub.find(REPO)
    fake.models[REPO] = repo_not_found

    async def refused() -> bool:
        try:
            await hub.find(REPO)
        except MissingRepoError:
            return True
        return False

    clock.ahead = HOUR
    await until(refused)
    for _ in range(3):
        clock.ahead += REFUSED_SECONDS
        assert await refused()
    fake.models[REPO] = says(500)
    clock.ahead += REFUSED_SECONDS

    async def known() -> bool:
        return not await refused()

    await until(known)
    found = await hub.find(REPO)
    assert (found.ref.commit, found.stale) == (COMMIT, True)


async def test_where_the_hub_is_not_there_only_the_first_waits(make_hub: MakeHub) -> None:
    hub = make_hub(hf_endpoint="http://127.0.0.1:1")
    with pytest.raises(UnreachableError):
        await hub.find("acme/first")
    async with asyncio.timeout(2):
        for number in range(20):
            with pytest.raises(HubError):
                await hub.find(f"acme/m{number}")
            with pytest.raises(HubError):
                await hub.find(f"acme/b{number}", patience=1.0)


async def test_organisations_may_be_named(make_hub: MakeHub, fake: FakeHub) -> None:
    hub = make_hub(hub_organisations="Acme, other")
    fake.models[REPO] = model()
    assert (await hub.find(REPO)).ref.commit == COMMIT
    for repo in ("evil/small", "small", "acme-evil/small"):
        with pytest.raises(NotAllowedError):
            await hub.find(repo)
    assert len(fake.requests) == 1


async def test_a_fetch_ends_with_the_hub(make_hub: MakeHub, fake: FakeHub) -> None:
    hub = make_hub()
    fake.models[REPO] = slow_headers()
    waiting = asyncio.create_task(hub.find(REPO))
    await until_asked(fake, 1)
    await hub.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def hugging_face_cache(folder: Path, revision: str = "main") -> Path:
    """A cache as huggingface_hub writes it."""
    model_folder = folder / "models--acme--small"
    blob = model_folder / "blobs" / "1234"
    blob.parent.mkdir(parents=True)
    blob.write_text(json.dumps(LLAMA))
    snapshot = model_folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to(os.path.relpath(blob, snapshot))
    ref = model_folder / "refs" / revision
    ref.parent.mkdir(parents=True)
    ref.write_text(COMMIT)
    return folder


@pytest.mark.parametrize("revision", ["main", "refs/pr/1"])
async def test_a_cache_of_huggingface_hub_is_read(
    make_hub: MakeHub, tmp_path: Path, revision: str
) -> None:
    folder = hugging_face_cache(tmp_path / "hub", revision)
    for settings in ({"hf_hub_cache": str(folder)}, {"hf_home": str(tmp_path)}):
        hub = make_hub(hf_hub_offline=True, cache_dir="", **settings)
        for asked in (revision, COMMIT):
            found = await hub.find(REPO, asked)
            assert (found.ref.commit, found.config.values) == (COMMIT, LLAMA)
        with pytest.raises(OfflineError):
            await hub.find(REPO, "v1")


async def test_a_cache_of_huggingface_hub_is_confirmed_by_the_hub(
    make_hub: MakeHub, fake: FakeHub, tmp_path: Path
) -> None:
    folder = hugging_face_cache(tmp_path)
    ref = folder / "models--acme--small" / "refs" / "main"
    os.utime(ref, (0, 0))
    hub = make_hub(hf_hub_cache=str(folder))
    fake.models[REPO] = model(LARGER, OTHER_COMMIT)
    found = await hub.find(REPO)
    assert (found.ref.commit, found.stale) == (COMMIT, True)

    async def confirmed() -> bool:
        return (await hub.find(REPO)).ref.commit == OTHER_COMMIT

    await until(confirmed)


@pytest.mark.parametrize("content", ["", "no commit", "../../etc"])
async def test_a_ref_that_names_no_commit_is_none(
    make_hub: MakeHub, tmp_path: Path, content: str
) -> None:
    folder = hugging_face_cache(tmp_path)
    (folder / "models--acme--small" / "refs" / "main").write_text(content)
    with pytest.raises(OfflineError):
        await make_hub(hf_hub_offline=True, hf_hub_cache=str(folder)).find(REPO)


def test_a_service_reads_no_cache_and_no_token_that_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At a terminal one has logged in; a service has not."""
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "huggingface"
    home.mkdir()
    (home / "token").write_text("hf_mine\n")
    settings = HubSettings()
    assert settings.own_token(personal=False) is None
    assert settings.own_token(personal=True) == "hf_mine"
    assert settings.foreign_cache(personal=False) is None
    assert settings.foreign_cache(personal=True) == home / "hub"
    named = HubSettings(hf_token_path=home / "token")
    assert named.own_token(personal=False) == "hf_mine"


@pytest.mark.parametrize("damage", [b"no database at all " * 100, b""])
async def test_a_damaged_file_is_made_anew(
    make_hub: MakeHub, fake: FakeHub, tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FILE).write_bytes(damage)
    fake.models[REPO] = model()
    await make_hub().find(REPO)
    assert (await make_hub(hf_hub_offline=True).find(REPO)).ref.commit == COMMIT


@pytest.mark.parametrize("body", ["<html>", b"<html>", None, 7])
async def test_what_another_wrote_into_the_file_is_not_believed(
    make_hub: MakeHub, fake: FakeHub, tmp_path: Path, body: object
) -> None:
    fake.models[REPO] = model()
    hub = make_hub()
    await hub.find(REPO)
    await hub.aclose()
    with sqlite3.connect(tmp_path / "cache" / FILE) as database:
        database.execute("UPDATE configs SET body = ?", (body,))
    database.close()
    with pytest.raises(OfflineError):
        await make_hub(hf_hub_offline=True).find(REPO)
    assert (await make_hub().find(REPO)).config.values == LLAMA


async def test_a_folder_that_cannot_be_written_costs_no_answer(
    make_hub: MakeHub, fake: FakeHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    fake.models |= {REPO: model(), "acme/other": model()}
    hub = make_hub()
    await hub.find(REPO)
    await hub.find("acme/other")
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "models are not kept on disk"
    ]


async def test_what_is_on_disk_is_for_its_owner(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.models[REPO] = model()
    await hub.find(REPO)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / FILE).stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_only_mounted_to_be_read_is_read(tmp_path: Path) -> None:
    written = Disk(tmp_path, "https://hub")
    key = ConfigKey(REPO, "main")
    written.keep([key], Ref(REPO, COMMIT, 1.0), b"{}")
    written.close()
    path = tmp_path / FILE
    read = Disk(tmp_path, "https://hub")
    opened = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    read._open = opened
    found = read.find(key)
    assert found is not None
    assert found.ref == Ref(REPO, COMMIT, 1.0)
    read.keep([ConfigKey("acme/other", "main")], Ref("acme/other", COMMIT, 1.0), b"{}")
    assert read.find(key) == found
    read.close()


def test_the_file_stays_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainfit.hub.disk.MAX_BYTES", 2**20)
    disk = Disk(tmp_path, "https://hub")
    body = b" " * 50_000
    for number in range(60):
        ref = Ref(f"acme/m{number}", f"{number:040x}", 1.0)
        disk.keep([ConfigKey(ref.name, "main")], ref, body)
    kept = [number for number in range(60) if disk.find(ConfigKey(f"acme/m{number}", "main"))]
    assert kept == list(range(60 - len(kept), 60))
    assert 10 <= len(kept) <= 21
    assert [each.repo for each in disk.listed()] == sorted(f"acme/m{number}" for number in kept)
    disk.close()


@pytest.mark.parametrize("checked_at", ["soon", b"1", float("inf"), 1e300, -1.0, None])
def test_a_time_that_is_none_is_not_believed(tmp_path: Path, checked_at: Any) -> None:
    disk = Disk(tmp_path, "https://hub")
    key = ConfigKey("acme/small", "main")
    disk.keep([key], Ref("acme/small", COMMIT, 1.0), b"{}")
    assert disk.find(key) is not None
    disk.close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("UPDATE refs SET checked_at = ?", (checked_at,))
    observer = Mock(spec=Nobody)
    disk = Disk(tmp_path, "https://hub", observer)
    assert disk.find(key) is None
    assert disk.find(ConfigKey("acme/none", "main")) is None
    assert disk.listed() == []
    disk.close()
    observer.entry_malformed.assert_called_once_with("disk")


def test_large_configs_take_no_more_memory_than_there_is_for_them() -> None:
    """24 files of 1 MiB, each of as many values as are read."""
    memory = Memory()
    tracemalloc.start()
    for number in range(24):
        body = b'{"a": [' + b",".join([b"1.5"] * 199_000) + b"]}"
        config = HubConfig(read_config(body), held_bytes(body))
        entry = Remembered(Ref(f"m{number}", COMMIT, 0.0), config, 0.0, 0.0)
        memory.put(ConfigKey(f"m{number}", "main"), entry)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(memory) > 0
    assert held < 1.5 * memory_module.MAX_BYTES


def test_memory_stays_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MAX_BYTES", 1000)
    monkeypatch.setattr(memory_module, "MAX_ENTRIES", 5)
    memory = Memory()

    def put(name: str, size: int) -> None:
        entry = Remembered(Ref(name, COMMIT, 0.0), HubConfig({}, size), 0.0, 0.0)
        memory.put(ConfigKey(name, "main"), entry)

    for number in range(10):
        put(f"m{number}", 10)
    assert len(memory) == 5
    assert memory.find(ConfigKey("m5", "main")) is not None
    put("large", 960)
    assert memory.find(ConfigKey("m5", "main")) is not None
    assert memory.find(ConfigKey("m6", "main")) is None
    put("larger than all", 1001)
    assert len(memory) == 0
