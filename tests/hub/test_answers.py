"""Whatever the Hub answers with has its expected outcome, and nothing is left open."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic
from typing import Any

import pytest

from tests.hub.conftest import MakeHub
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    OTHER_COMMIT,
    Answer,
    FakeHub,
    dripping_body,
    gated,
    gzipped,
    model,
    one_after_another,
    repo_not_found,
    reset,
    says,
    slow_body,
    slow_headers,
    truncated,
)
from trainfit.hub.config_json import MAX_BYTES, MAX_VALUES
from trainfit.hub.errors import (
    AdapterError,
    GatedRepoError,
    HubError,
    MalformedAnswerError,
    MissingRepoError,
    MissingRevisionError,
    NoConfigError,
    RateLimitedError,
    RenamedRepoError,
    SlowHubError,
    UnreachableError,
)
from trainfit.hub.hub import Hub

REPO = "acme/small"
OTHER = "acme/renamed"
BODY = json.dumps(LLAMA).encode()


def file(body: bytes, **headers: str) -> Answer:
    return says(200, body, **{"x_repo_commit": COMMIT, **headers})


def to(url: str, status: int = 307, **headers: str) -> Answer:
    return says(status, location=url, **headers)


def adapter(base: Any) -> Answer:
    return model({"base_model_name_or_path": base}, file="adapter_config.json")


ANSWERED: dict[str, Answer] = {
    "as text": file(BODY, content_type="text/plain; charset=utf-8"),
    "as JSON": file(BODY, content_type="application/json"),
    "as bytes": file(BODY, content_type="application/octet-stream"),
    "without a type": file(BODY),
    "compressed": gzipped(BODY),
    "with a byte order mark": file(json.dumps(LLAMA).encode("utf-16")),
    "after a failure": one_after_another(says(500), model()),
    "after a reset": one_after_another(reset, model()),
    "after a truncated answer": one_after_another(truncated, model()),
    "after 429 with Retry-After: 0": one_after_another(says(429, retry_after="0"), model()),
    "from another path": to(f"/api/resolve-cache/{REPO}", x_repo_commit=COMMIT),
}


@pytest.mark.parametrize("case", ANSWERED)
async def test_a_config_is_read(hub: Hub, fake: FakeHub, case: str) -> None:
    fake.models[REPO] = ANSWERED[case]
    fake.models[f"/api/resolve-cache/{REPO}"] = says(200, BODY)
    found = await hub.find(REPO)
    assert found.config.values == LLAMA
    assert (found.ref.name, found.ref.commit, found.stale) == (REPO, COMMIT, False)


async def test_numbers_that_are_no_json_are_read_as_transformers_does(
    hub: Hub, fake: FakeHub
) -> None:
    fake.models[REPO] = file(b'{"a": NaN, "b": [0.0, Infinity]}')
    values = (await hub.find(REPO)).config.values
    assert math.isnan(values["a"])
    assert values["b"] == [0.0, math.inf]


REFUSED: dict[str, tuple[Answer, type[HubError]]] = {
    "no such repository": (repo_not_found, MissingRepoError),
    "no such repository, plainly": (says(404), MissingRepoError),
    "no such revision": (says(404, x_error_code="RevisionNotFound"), MissingRevisionError),
    "no such file": (says(404, x_error_code="EntryNotFound"), NoConfigError),
    "gated": (gated, GatedRepoError),
    "gated, with a token": (says(403, x_error_code="GatedRepo"), GatedRepoError),
    "gated, plainly": (says(401), GatedRepoError),
    "disabled": (says(403), GatedRepoError),
    "renamed": (to(f"/{OTHER}/resolve/main/config.json"), RenamedRepoError),
    "an adapter": (adapter("meta-llama/Llama-3.1-8B"), AdapterError),
    "slow headers": (slow_headers(), SlowHubError),
    "slow body": (slow_body, SlowHubError),
    "dripping body": (dripping_body, SlowHubError),
    "truncated": (truncated, UnreachableError),
    "reset": (reset, UnreachableError),
    "500": (says(500), UnreachableError),
    "503 for an hour": (says(503, retry_after="3600"), UnreachableError),
    "429": (says(429), RateLimitedError),
    "a page": (says(200, b"<html>", content_type="text/html"), MalformedAnswerError),
    "a page without a type": (file(b"<html>"), MalformedAnswerError),
    "a page with a good name": (file(BODY, content_type="text/html"), MalformedAnswerError),
    "a picture": (file(BODY, content_type="image/png"), MalformedAnswerError),
    "no JSON": (file(b'{"model_type": '), MalformedAnswerError),
    "no UTF-8": (file(b'{"a": "\xff"}'), MalformedAnswerError),
    "a list": (file(b"[]"), MalformedAnswerError),
    "nothing": (file(b""), MalformedAnswerError),
    "deep nesting": (file(b"[" * 500_000), MalformedAnswerError),
    "a huge number": (file(b'{"a": ' + b"9" * 10_000 + b"}"), MalformedAnswerError),
    "many values": (file(b'{"a": [' + b"0," * MAX_VALUES + b"0]}"), MalformedAnswerError),
    "too long": (file(b" " * (MAX_BYTES + 1)), MalformedAnswerError),
    "a bomb": (gzipped(b" " * (200 * MAX_BYTES)), MalformedAnswerError),
    "a torn archive": (
        says(200, b"\x1f\x8b\x08\x00", content_encoding="gzip", x_repo_commit=COMMIT),
        MalformedAnswerError,
    ),
    "no archive": (file(BODY, content_encoding="gzip"), MalformedAnswerError),
    "an unknown encoding": (file(BODY, content_encoding="br"), MalformedAnswerError),
    "no commit": (says(200, BODY), MalformedAnswerError),
    "no good commit": (says(200, BODY, x_repo_commit="../secret"), MalformedAnswerError),
    "another host": (to("http://169.254.169.254/latest"), MalformedAnswerError),
    "another host's storage": (to("https://hf.co.evil.example/x"), MalformedAnswerError),
    "another port": (to("http://127.0.0.1:1/x"), MalformedAnswerError),
    "a file": (to("file:///etc/passwd"), MalformedAnswerError),
    "no URL": (to("http://[::"), UnreachableError),
    "a loop": (to(f"/{REPO}/resolve/main/config.json"), MalformedAnswerError),
    "no content": (says(204), MalformedAnswerError),
    "not modified": (says(304), MalformedAnswerError),
    "a teapot": (says(418), MalformedAnswerError),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_config_is_refused_for_what_it_is(
    make_hub: MakeHub, fake: FakeHub, case: str
) -> None:
    fake.models[REPO], expected = REFUSED[case]
    hub = make_hub(hub_timeout_seconds=0.3 if expected is SlowHubError else 10.0)
    begin = monotonic()
    with pytest.raises(HubError) as refused:
        await hub.find(REPO)
    assert type(refused.value) is expected
    assert monotonic() - begin < 5


async def test_a_name_that_leads_nowhere_is_unreachable_at_once(make_hub: MakeHub) -> None:
    hub = make_hub(hf_endpoint="http://hub.invalid")
    with pytest.raises(UnreachableError) as refused:
        await hub.find(REPO)
    assert not refused.value.connected


async def test_a_new_name_is_told(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = to(f"{fake.url}/{OTHER}/resolve/main/config.json")
    with pytest.raises(RenamedRepoError) as refused:
        await hub.find(REPO)
    assert refused.value.instead == OTHER
    assert fake.asked(OTHER) == 0


async def test_a_spelling_is_followed(hub: Hub, fake: FakeHub) -> None:
    fake.models["Acme/SMALL"] = to(f"/{REPO}/resolve/main/config.json")
    fake.models[REPO] = model()
    assert (await hub.find("Acme/SMALL")).ref.name == REPO


@pytest.mark.parametrize(
    ("base", "told"),
    [("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"), ("/home/me/llama", None), (7, None)],
)
async def test_an_adapter_names_the_model_below_it(
    hub: Hub, fake: FakeHub, base: Any, told: str | None
) -> None:
    fake.models[REPO] = adapter(base)
    with pytest.raises(AdapterError) as refused:
        await hub.find(REPO)
    assert refused.value.instead == told


IN_A_MINUTE = "a date, which is made when it is sent"


def dated(value: str) -> str:
    date = datetime.now(UTC) + timedelta(seconds=60)
    return format_datetime(date, usegmt=True) if value == IN_A_MINUTE else value


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry_after": "55"}, 54, 55),
        ({"retry_after": IN_A_MINUTE}, 30, 60),
        ({"ratelimit": '"api";r=0;t=55'}, 54, 55),
        ({"ratelimit": '"api";r=7;t=900, "resolvers";r=0;t=20'}, 19, 20),
        ({"ratelimit": '"api";r=0;t=55', "retry_after": "70"}, 69, 70),
        ({"ratelimit": "nonsense", "retry_after": "soon"}, 29, 30),
        ({}, 29, 30),
    ],
)
async def test_a_limit_is_kept_to(
    hub: Hub, fake: FakeHub, headers: dict[str, str], low: int, high: int
) -> None:
    """Nothing more is asked before the Hub wants it, for whichever model."""
    sent = {name: dated(value) for name, value in headers.items()}
    fake.models[REPO] = says(429, b"", **sent)
    with pytest.raises(RateLimitedError):
        await hub.find(REPO)
    asked = len(fake.requests)
    with pytest.raises(RateLimitedError) as refused:
        await hub.find("acme/other")
    assert refused.value.retry_after is not None
    assert low <= refused.value.retry_after <= high
    assert len(fake.requests) == asked


async def test_retries_are_bounded(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = says(500)
    with pytest.raises(UnreachableError):
        await hub.find(REPO)
    assert fake.asked(REPO) == 3


async def test_a_revision_is_one_part_of_the_path(hub: Hub, fake: FakeHub) -> None:
    fake.models[REPO] = model()
    await hub.find(REPO, "refs/pr/1")
    assert fake.requests[-1].path == f"/{REPO}/resolve/refs%2Fpr%2F1/config.json"


async def test_a_commit_needs_no_word_of_the_hub(hub: Hub, fake: FakeHub) -> None:
    """A plain mirror serves files and says nothing of commits."""
    fake.models[REPO] = says(200, BODY)
    assert (await hub.find(REPO, OTHER_COMMIT)).ref.commit == OTHER_COMMIT


async def test_a_mirror_may_lie_below_a_path(make_hub: MakeHub, fake: FakeHub) -> None:
    fake.models[f"mirror/hf/{REPO}"] = model()
    hub = make_hub(hf_endpoint=f"{fake.url}/mirror/hf/")
    assert (await hub.find(REPO)).ref.commit == COMMIT


async def test_cookies_are_not_carried_from_one_question_to_another(
    hub: Hub, fake: FakeHub
) -> None:
    fake.models[REPO] = file(BODY, set_cookie="session=secret; Path=/")
    fake.models["acme/other"] = model()
    await hub.find(REPO)
    await hub.find("acme/other")
    assert all("cookie" not in request.headers for request in fake.requests)
