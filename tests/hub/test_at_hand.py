"""What is known without waiting is what asking comes to."""

from __future__ import annotations

import asyncio

import pytest

from tests.hub.conftest import Clock, MakeHub
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    OTHER_COMMIT,
    Answer,
    FakeHub,
    gated,
    model,
    only_for,
    repo_not_found,
    says,
)
from trainfit.hub.entries import Found
from trainfit.hub.errors import HubError, NotAllowedError, OfflineError
from trainfit.hub.hub import Hub

REPO = "acme/small"
TOKEN = "hf_canary_of_alice"
HOUR = 3600.0


async def asked(hub: Hub) -> Found | HubError:
    try:
        return await hub.find(REPO)
    except HubError as error:
        return error


def alike(one: Found | HubError | None, other: Found | HubError) -> bool:
    if isinstance(other, Found):
        return one == other
    return type(one) is type(other) and str(one) == str(other)


async def test_what_nobody_has_asked_for_is_not_at_hand(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    assert hub.at_hand(REPO) is None
    assert fake.asked(REPO) == 0


@pytest.mark.parametrize("answer", [model(), gated, repo_not_found, says(500), says(429)])
async def test_what_the_hub_said_is_at_hand(hub: Hub, fake: FakeHub, answer: Answer) -> None:
    fake.models[REPO] = answer
    first = await asked(hub)
    assert alike(hub.at_hand(REPO), first)
    assert alike(hub.at_hand(REPO), await asked(hub))
    assert hub.at_hand(REPO, OTHER_COMMIT) is None


@pytest.mark.parametrize("answer", [model(LLAMA, OTHER_COMMIT), says(500)])
async def test_what_is_no_longer_confirmed_is_at_hand_and_asked_for_anew(
    hub: Hub, fake: FakeHub, clock: Clock, answer: Answer
) -> None:
    fake.models[REPO] = model()
    await asked(hub)
    fake.models[REPO] = answer
    clock.ahead = HOUR
    found = hub.at_hand(REPO)
    assert isinstance(found, Found)
    assert (found.ref.commit, found.stale) == (COMMIT, True)
    async with asyncio.timeout(10):
        while fake.asked(REPO) < 2:
            await asyncio.sleep(0.01)


async def test_offline_it_is_at_hand_whether_it_is_known(make_hub: MakeHub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    offline = make_hub(hf_hub_offline=True)
    assert offline.at_hand(REPO) is None  # the disk may have it
    assert isinstance(await asked(offline), OfflineError)
    assert isinstance(offline.at_hand(REPO), OfflineError)
    await asked(make_hub())
    restarted = make_hub(hf_hub_offline=True)
    found = await asked(restarted)
    assert isinstance(found, Found)
    assert restarted.at_hand(REPO) == found


async def test_what_the_token_of_the_service_opens_is_at_hand_for_its_callers(
    make_hub: MakeHub, fake: FakeHub
) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    hub = make_hub(hf_token=TOKEN)
    found = await asked(hub)
    assert isinstance(found, Found)
    assert hub.at_hand(REPO) == found


async def test_what_a_token_of_a_caller_opens_is_not(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = only_for(TOKEN, model(), gated)
    await hub.find(REPO, token=TOKEN)
    assert not isinstance(hub.at_hand(REPO), Found)


async def test_models_of_other_organisations_are_refused_at_once(make_hub: MakeHub) -> None:
    assert isinstance(make_hub(hub_organisations=("others",)).at_hand(REPO), NotAllowedError)
