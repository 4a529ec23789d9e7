"""The question that opens the documentation, asked over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from httpx import ASGITransport, AsyncClient, Response

from tools.docs.markdown import listing
from trainfit.api.app import create_app
from trainfit.api.examples import DEEPSEEK_V3
from trainfit.api.settings import ServiceSettings


def asked(
    method: str,
    path: str,
    *,
    body: str | None = None,
    settings: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    times: int = 1,
    slow: bool = False,
) -> Response:
    """What the service answers, the last time that it is asked."""

    async def never_ending(body: str) -> AsyncIterator[bytes]:
        yield body.encode()
        await asyncio.Event().wait()

    async def ask() -> Response:
        given = {"hf_hub_offline": True, "cache_dir": "", **(settings or {})}
        transport = ASGITransport(create_app(ServiceSettings(**{"worker_processes": 0, **given})))
        async with AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            said = {"Content-Type": "application/json"} if body is not None else {}
            said |= {"X-Request-Id": "example", **(headers or {})}
            for _ in range(times):
                content = never_ending(body) if slow and body is not None else body
                answer = await client.request(method, path, content=content, headers=said)
        return answer

    return asyncio.run(ask())


def laid_out(job: Mapping[str, Any]) -> str:
    """A job as JSON with a line for each of its parts."""
    parts = [f"  {json.dumps(name)}: {json.dumps(part)}" for name, part in job.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


def command() -> str:
    """The question as a command, and the answer cut down to the essential."""
    job = laid_out(DEEPSEEK_V3)
    curl = (
        "curl --silent http://127.0.0.1:8080/v1/estimate "
        f"--header 'Content-Type: application/json' --data '{job}' | python3 -m json.tool"
    )
    answer = asked("POST", "/v1/estimate", body=job).json()
    return f"{listing(curl, 'sh')}\n\n{listing(_essential(answer), 'js')}"


def _essential(answer: dict[str, Any]) -> str:
    """Of each stage only its peak and its bytes, of the rest the model and what binds."""
    parameters = {name: answer["model"]["parameters"][name] for name in ("total", "active")}
    stages = ",\n".join(_stage(stage) for stage in answer["stages"])
    return (
        f'{{\n  "model": {{"parameters": {_open(parameters)}, ...}},\n'
        f'  "stages": [\n{stages}\n  ],\n'
        f'  "binding": {json.dumps(answer["binding"])},\n  ...\n}}'
    )


def _stage(stage: dict[str, Any]) -> str:
    head = {name: stage[name] for name in ("pp_rank", "microbatches_in_flight", "peak")}
    sizes = (
        f'     "{name}": {json.dumps(bounds)}'
        for name, bounds in stage.items()
        if isinstance(bounds, dict) and name.endswith("_bytes")
    )
    lines = ",\n".join([f"    {json.dumps(head)[:-1]}", *sizes])
    return f"{lines}, ...}}"


def _open(values: Mapping[str, Any]) -> str:
    return json.dumps(values)[:-1] + ", ...}"


BLOCKS = {"question": command}
