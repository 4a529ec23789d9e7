"""POST /v1/measurements:from-logs."""

from __future__ import annotations

from httpx import AsyncClient

from tests.measurements.lines import LINES
from trainfit.api.examples import LOG_EXAMPLES


async def test_every_line_is_read_over_http(client: AsyncClient) -> None:
    text = "\n".join(line.text for line in LINES)
    asked = {"artifacts": [{"name": "all.log", "text": text}]}
    response = await client.post("/v1/measurements:from-logs", json=asked)
    assert response.status_code == 200, response.text
    found = response.json()["measurements"]
    assert {each["source"]["line"] for each in found} == set(range(1, len(LINES) + 1))
    assert {each["source"]["name"] for each in found} == {"all.log"}


async def test_the_example_is_answered(client: AsyncClient) -> None:
    response = await client.post(
        "/v1/measurements:from-logs", json=LOG_EXAMPLES["megatron"]["value"]
    )
    assert [each["step"] for each in response.json()["measurements"]] == [2] * 4
    assert response.json()["speeds"][0]["seconds"] == 4.8213


async def test_a_format_that_is_none_is_refused_by_its_place(client: AsyncClient) -> None:
    asked = {"artifacts": [{"name": "a", "text": "", "format": "lightning"}]}
    response = await client.post("/v1/measurements:from-logs", json=asked)
    assert response.status_code == 422
    assert [each["pointer"] for each in response.json()["errors"]] == ["/artifacts/0/format"]
