"""Requests a second of a warm estimate, beside a FastAPI endpoint that does nothing: as many bytes
in and as many out, on the same server settings, asked in turn by wrk from another process.

The share by the processor time of the servers is the one to trust where other work runs as well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.serving import Service, free_port, started_service, wait_until_ready
from trainfit.api.examples import LLAMA_8B

ROUNDS = 7
SECONDS = 1
CONNECTIONS = 16
BODY = json.dumps(LLAMA_8B)

EMPTY = """
import sys, uvicorn
from fastapi import FastAPI, Request, Response

answer = b" " * int(sys.argv[2])
app = FastAPI(openapi_url=None)

@app.get("/readyz")
async def readyz() -> None: ...

@app.post("/v1/estimate")
async def estimate(request: Request) -> Response:
    await request.body()
    return Response(answer, media_type="application/json")

uvicorn.Server(uvicorn.Config(
    app, port=int(sys.argv[1]), log_config=None, access_log=False, server_header=False
)).run()
"""


@dataclass(slots=True)
class Rate:
    """The best of several rounds: what the work costs when nothing else runs."""

    name: str
    service: Service
    a_second: float = 0.0
    cpu_seconds: float = float("inf")

    def measure(self, script: Path) -> None:
        """One round of wrk, on one thread."""
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", str(script)]
        begin = cpu_seconds(self.service.process.pid)
        run = subprocess.run(
            [*command, f"{self.service.url}/v1/estimate"],
            check=True,
            capture_output=True,
            text=True,
        )
        spent = cpu_seconds(self.service.process.pid) - begin
        assert "Non-2xx" not in run.stdout, run.stdout
        requests = re.search(r"(\d+) requests in", run.stdout)
        rate = re.search(r"Requests/sec: +([0-9.]+)", run.stdout)
        assert requests
        assert rate
        self.a_second = max(self.a_second, float(rate[1]))
        self.cpu_seconds = min(self.cpu_seconds, spent / int(requests[1]))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, as Linux tells it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def empty_service(answer_bytes: int) -> Iterator[Service]:
    """The endpoint that does nothing."""
    port = free_port()
    command = [sys.executable, "-c", EMPTY, str(port), str(answer_bytes)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(url, process)
        yield Service(url, process)
    finally:
        process.terminate()
        process.communicate()


def throughput() -> list[Rate]:
    """How an estimate is served, with and without a log, and last what is possible."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed; it is in the Debian package wrk")
    with ExitStack() as stack:
        script = Path(stack.enter_context(TemporaryDirectory()), "post.lua")
        script.write_text(
            f"wrk.method = 'POST'\nwrk.body = [[{BODY}]]\n"
            "wrk.headers['Content-Type'] = 'application/json'\n"
        )
        logging = stack.enter_context(started_service(Path(os.devnull), HF_HUB_OFFLINE="1"))
        silent = stack.enter_context(
            started_service(HF_HUB_OFFLINE="1", TRAINFIT_LOG_LEVEL="warning")
        )
        answer = httpx.post(f"{logging.url}/v1/estimate", json=LLAMA_8B).content
        empty = stack.enter_context(empty_service(len(answer)))
        rates = [
            Rate("warm estimate, HTTP", logging),
            Rate("the same without a log", silent),
            Rate("FastAPI that does nothing", empty),
        ]
        for _ in range(ROUNDS):
            for rate in rates:
                rate.measure(script)
    return rates


def main() -> None:
    rates = throughput()
    possible = rates[-1]
    for rate in rates:
        by_rate = rate.a_second / possible.a_second
        by_cpu = possible.cpu_seconds / rate.cpu_seconds
        print(
            f"{rate.name:48s} {rate.cpu_seconds * 1e6:9.0f} us  {by_cpu:6.2f} of what is possible"
            f"; {rate.a_second:6.0f} /s, {by_rate:.2f}"
        )


if __name__ == "__main__":
    main()
