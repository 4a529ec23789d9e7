"""Tokens: what one opens is shown to who has it, and it goes to the Hub and nowhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.conftest import Clock, MakeHub
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    Answer,
    FakeHub,
    gated,
    model,
    only_for,
    repo_not_found,
    running_hub,
    says,
)
from trainfit.hub.errors import (
    GatedRepoError,
    MalformedAnswerError,
    MissingRepoError,
    OfflineError,
)
from trainfit.hub.hub import Hub

REPO = "acme/secret"
TOKEN = "hf_canary_of_alice"
OTHER_TOKEN = "hf_canary_of_bob"


@pytest.fixture
def other_host() -> Iterator[FakeHub]:
    with running_hub() as hub:
        yield hub


@pytest.mark.parametrize("refusal", [gated, repo_not_found, says(403), says(404)])
async def test_a_model_is_shown_to_who_has_the_token(
    hub: Hub, fake: FakeHub, refusal: Answer
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), refusal)
    for _ in range(2):
        assert (await hub.find(REPO, token=TOKEN)).config.values == LLAMA
        for other in (None, OTHER_TOKEN):
            with pytest.raises((GatedRepoError, MissingRepoError)):
                await hub.find(REPO, token=other)
        for revision in (None, COMMIT):
            with pytest.raises((GatedRepoError, MissingRepoError)):
                await hub.find(REPO, revision)


async def test_a_token_that_does_not_help_is_told(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = gated
    with pytest.raises(GatedRepoError, match="takes a token"):
        await hub.find(REPO)
    with pytest.raises(GatedRepoError, match="the token gives no access"):
        await hub.find(REPO, token=TOKEN)


async def test_a_public_model_is_asked_for_without_the_token(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    await hub.find(REPO, token=TOKEN)
    await hub.find(REPO)
    assert len(fake.requests) == 1
    assert "authorization" not in fake.requests[0].headers


async def test_at_once_and_after_a_restart_nobody_sees_what_is_another_s(
    make_hub: MakeHub, fake: FakeHub
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    hub = make_hub()
    results = await asyncio.gather(
        *(hub.find(REPO, token=token) for token in (TOKEN, None, OTHER_TOKEN) * 20),
        return_exceptions=True,
    )
    assert [isinstance(each, GatedRepoError) for each in results] == [False, True, True] * 20
    await hub.aclose()
    after = make_hub(hf_hub_offline=True)
    assert (await after.find(REPO, token=TOKEN)).config.values == LLAMA
    for other in (None, OTHER_TOKEN):
        with pytest.raises(OfflineError):
            await after.find(REPO, token=other)


async def test_a_private_model_is_answered_where_the_hub_fails(
    hub: Hub, fake: FakeHub, clock: Clock
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    await hub.find(REPO, token=TOKEN)
    fake.models[REPO] = says(500)
    for _ in range(3):
        clock.ahead += 3600
        assert (await hub.find(REPO, token=TOKEN)).stale


async def test_the_disk_holds_no_token(make_hub: MakeHub, fake: FakeHub, tmp_path: Path) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    hub = make_hub()
    await hub.find(REPO, token=TOKEN)
    await hub.aclose()
    kept = [path.read_bytes() for path in (tmp_path / "cache").iterdir()]
    assert any(b"secret" in content for content in kept)
    assert not any(b"canary" in content for content in kept)


async def test_a_token_is_not_sent_elsewhere(hub: Hub, fake: FakeHub, other_host: FakeHub) -> None:
    elsewhere = says(307, location=f"{other_host.url}/{REPO}/resolve/main/config.json")
    fake.models[REPO] = only_for(TOKEN, elsewhere, gated)
    with pytest.raises(MalformedAnswerError):
        await hub.find(REPO, token=TOKEN)
    assert other_host.requests == []


async def test_storage_of_the_hub_is_not_sent_the_token(
    hub: Hub, fake: FakeHub, other_host: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another origin that one may be led to; here it passes for the Hub's own."""
    monkeypatch.setattr("trainfit.hub.client.HubClient._target", leads_anywhere)
    other_host.models["/stored"] = says(200, json.dumps(LLAMA).encode())
    stored = says(307, location=f"{other_host.url}/stored", x_repo_commit=COMMIT)
    fake.models[REPO] = only_for(TOKEN, stored, gated)
    await hub.find(REPO, token=TOKEN)
    (request,) = other_host.requests
    assert "authorization" not in request.headers
    assert [each.headers.get("authorization") for each in fake.requests] == [
        None,
        f"Bearer {TOKEN}",
    ]


def leads_anywhere(_: object, response: object) -> object:
    return response.request.url.join(response.headers["location"])  # type: ignore[attr-defined]


async def test_the_token_of_the_service_serves_all_who_ask(
    make_hub: MakeHub, fake: FakeHub
) -> None:
    hub = make_hub(hf_token=TOKEN, hub_organisations="acme")
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    assert (await hub.find(REPO)).ref.commit == COMMIT
    with pytest.raises(GatedRepoError):
        await hub.find(REPO, token=OTHER_TOKEN)
    without = make_hub()
    with pytest.raises(GatedRepoError):
        await without.find(REPO)
