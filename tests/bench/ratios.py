"""What questions cost in calls of functions, beside a route of FastAPI that does nothing: no other
load of the machine changes that, so that a test can hold it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Message

from tests.counting import calls
from trainfit.api.app import create_app
from trainfit.api.connection import ARRIVED
from trainfit.api.examples import DEEPSEEK_V3, LLAMA_8B
from trainfit.api.logs import configure_logs
from trainfit.api.settings import ServiceSettings
from trainfit.estimator.estimate import estimate
from trainfit.questions.estimate import plan_of
from trainfit.specs.job import Job

FEW, MANY = 5, 15
"""Requests: what an event loop takes to begin and to end counts in neither."""


def doing_nothing(answer: bytes) -> FastAPI:
    """A route that reads a body and sends an answer."""
    app = FastAPI(openapi_url=None)

    @app.post("/v1/estimate")
    async def route(request: Request) -> Response:
        await request.body()
        return Response(answer, media_type="application/json")

    return app


async def asked(app: ASGIApp, path: str, body: bytes) -> bytes:
    """The answer to one request, which is handed over as a server does."""
    arrived = asyncio.Event()
    sent: list[Message] = []

    async def receive() -> Message:
        if arrived.is_set():
            await asyncio.Event().wait()
        arrived.set()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    route, _, query = path.partition("?")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50_000),
        "method": "POST",
        "root_path": "",
        "path": route,
        "raw_path": route.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "state": {ARRIVED: True},
    }
    await app(scope, receive, send)
    start, *parts = sent
    assert start["status"] == 200, parts
    return b"".join(part["body"] for part in parts)


def of_a_request(app: ASGIApp, path: str, question: Mapping[str, Any]) -> float:
    """Calls of one request of many that are alike."""
    body = json.dumps(question).encode()

    def times(number: int) -> int:
        async def ask() -> None:
            for _ in range(number):
                await asked(app, path, body)

        return calls(lambda: asyncio.run(ask()), lambda *_: True)

    times(FEW)
    return (times(MANY) - times(FEW)) / (MANY - FEW)


def ratios() -> dict[str, float]:
    """How many times the calls of a route that does nothing each takes."""
    look = {**LLAMA_8B, "suggest": False, "replay": False}
    remembering = create_app(ServiceSettings(worker_processes=0))
    forgetting = create_app(ServiceSettings(worker_processes=0, answer_cache_bytes=0))
    answer = asyncio.run(asked(remembering, "/v1/estimate", json.dumps(LLAMA_8B).encode()))
    nothing = of_a_request(doing_nothing(answer), "/v1/estimate", LLAMA_8B)
    plan = plan_of(Job.model_validate(DEEPSEEK_V3))
    estimate(plan)
    found = {
        "an answer that is remembered, HTTP": of_a_request(remembering, "/v1/estimate", LLAMA_8B),
        "an estimate by a ratio, HTTP": of_a_request(
            forgetting, "/v1/estimate?replay=false", LLAMA_8B
        ),
        "a fit-check by a ratio, HTTP": of_a_request(forgetting, "/v1/fit-check", look),
        "an estimate by a ratio, nothing remembered": calls(
            lambda: estimate(plan, replay=False), lambda *_: True
        ),
        "an estimate, nothing remembered": calls(lambda: estimate(plan), lambda *_: True),
    }
    return {name: count / nothing for name, count in found.items()}


def measured() -> dict[str, float]:
    """The ratios, of a process in which nothing was asked before."""
    command = [sys.executable, "-m", "tests.bench.ratios"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(run.stdout)
    return found


def main() -> None:
    """Print the ratios as JSON; what is logged meanwhile goes nowhere."""
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        configure_logs("info", "json")
        found = ratios()
    print(json.dumps({name: round(ratio, 2) for name, ratio in found.items()}, indent=2))


if __name__ == "__main__":
    main()
