"""`trainfit` as a process of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.serving import free_port, wait_until_ready

QUESTION = (
    "deepseek-ai/DeepSeek-V3 --tp 4 --pp 4 --ep 8 --num-gpus 128 "
    "--num-layers-in-last-pipeline-stage 16"
)
ESTIMATE = ["estimate", *QUESTION.split()]
JOBS = str(Path(__file__).parents[2] / "deploy" / "ci" / "example-jobs.yaml")
IMPORTS = "import pydantic, cyclopts, rich.console, rich.table, httpx, fastapi, uvicorn"
"""What the service stands on: a measure of how fast this machine starts Python just now."""
COLD_RATIO = 1.9
"""0.95 s where these imports take half a second; 1.4 to 1.6 was measured, a third of it the replay
of four ranks."""
SERVICE_ONLY = (
    "fastapi",
    "httpx",
    "prometheus_client",
    "redis",
    "structlog",
    "uvicorn",
)
OTHER_QUESTIONS = (
    "trainfit.specs.artifacts",
    "trainfit.specs.reconcile",
    "trainfit.specs.search",
    "trainfit.specs.snapshot",
)
"""What others are asked in than those about a job."""
LAUNCH_ANSWERS = ("trainfit.launch.account", "trainfit.launch.reading")
"""What is told of a launch that was read."""
LAUNCH_READERS = (
    "trainfit.launch.commands",
    "trainfit.launch.megatron",
    "trainfit.launch.read",
    "trainfit.launch.transformers",
)
WRITERS = ("accelerate", "deepspeed", "megatron", "torchtitan", "transformers")
"""Whose keys a launch is written in."""
OTHER_ROOMS = (
    "trainfit.estimator.frameworks.nanotron",
    "trainfit.estimator.frameworks.pytorch",
    "trainfit.resolve.nanotron",
    "trainfit.resolve.pytorch",
)
"""What a job of Megatron is answered without."""


def trainfit(*words: str) -> list[str]:
    return [sys.executable, "-m", "trainfit", *words]


def cpu_seconds(command: list[str]) -> float:
    """What a process takes from its start to its end, in user and system mode. Whether bytecode is
    kept is not left to the environment: only the first start compiles.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=kept, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.alone
def test_a_cold_estimate_is_quick() -> None:
    """In turn with what it is measured by, since others may keep the machine busy."""
    commands = (trainfit(*ESTIMATE), [sys.executable, "-c", IMPORTS])
    rounds = [[cpu_seconds(command) for command in commands] for _ in range(5)][1:]
    estimates, imports = zip(*rounds, strict=True)
    assert sum(estimates) < COLD_RATIO * sum(imports)


@pytest.mark.parametrize(
    ("words", "unused", "most"),
    [
        (["--help"], ["pydantic", "yaml", "trainfit.specs", "trainfit.questions"], 5),
        (["gpus"], ["yaml", "trainfit.hub", "trainfit.launch", "trainfit.questions"], 30),
        (
            ESTIMATE,
            [
                "yaml",
                "trainfit.decisions.suggestions",
                *LAUNCH_ANSWERS,
                *LAUNCH_READERS,
                *OTHER_ROOMS,
                *OTHER_QUESTIONS,
            ],
            260,
        ),
        (["fit-check", JOBS, "--gpu", "B200", "--format", "sarif"], LAUNCH_READERS, 310),
        (["compare", JOBS], LAUNCH_READERS, 310),
    ],
    ids=["help", "gpus", "estimate", "fit-check", "compare"],
)
def test_a_command_loads_only_what_it_uses(
    words: list[str], unused: Sequence[str], most: int
) -> None:
    """And of the package no more modules than a tenth above what it took when this was written, as
    each costs a start some time.
    """
    script = (
        "import sys; from trainfit.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert stop.code in (0, 1), stop.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], check=True, capture_output=True, text=True
    )
    loaded = done.stderr.split()
    assert "trainfit.cli.app" in loaded
    assert [each for each in loaded if each in {*SERVICE_ONLY, *unused}] == []
    assert len([each for each in loaded if each.startswith("trainfit")]) <= most


def test_a_service_starts_without_what_one_operation_alone_uses() -> None:
    """And works out no schema of an answer, which only the document says: it was a fifth of all
    calls of a start.
    """
    script = (
        "import sys; from trainfit.api.app import create_app, ServiceSettings\n"
        "app = create_app(ServiceSettings())\n"
        "routes = [each for each in app.routes if hasattr(each, 'answers')]\n"
        "assert len([each for each in routes if each.answers is not None]) > 10\n"
        "print(*[each.path for each in routes if each.answers and each.response_field])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    described, loaded = done.stdout.splitlines()
    assert described == ""
    assert "trainfit.launch.convert.targets" in loaded.split()
    assert not {f"trainfit.launch.convert.{name}" for name in WRITERS} & {*loaded.split()}
    assert len([each for each in loaded.split() if each.startswith("trainfit")]) <= 462


def collections(script: str, *words: str) -> int:
    """Searches for garbage in a process that runs a script, from its start to its end."""
    told = (
        "\nimport gc; print(sum(each['collections'] for each in gc.get_stats()), file=sys.stderr)"
    )
    command = [sys.executable, "-c", f"import sys; {script}{told}", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stderr)


def test_a_cold_estimate_seldom_looks_for_garbage() -> None:
    """It was more than three hundred times, a tenth of all its time. Before it runs, Python's own
    start has looked a few times.
    """
    found = collections("from trainfit.cli import main; main(sys.argv[1:])", *ESTIMATE)
    assert found < 50


def test_replays_of_a_worker_are_seldom_interrupted() -> None:
    """Each made the requests of tens of thousands of tensors, and was looked through hundreds of
    times.
    """
    warmed = "from trainfit.api.warming import warm; warm()"
    priced = (
        "; from trainfit.api.examples import DEEPSEEK_V3; from trainfit.specs.job import Job"
        "; from trainfit.questions.estimate import price; price(Job.model_validate(DEEPSEEK_V3))"
    )
    assert collections(warmed + priced) - collections(warmed) < 20


def test_a_worker_builds_no_validator_for_its_first_caller() -> None:
    script = (
        "from trainfit.api.warming import warm; from trainfit.specs.part import Part; warm()\n"
        "def parts(kind):\n"
        "    for each in kind.__subclasses__(): yield each; yield from parts(each)\n"
        "print(*[each.__name__ for each in parts(Part) if not each.__pydantic_complete__])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == []


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m trainfit models | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_no_color_at_a_terminal() -> None:
    coloured = {**os.environ, "FORCE_COLOR": "1"}
    plain = {**coloured, "NO_COLOR": "1"}
    outputs = [
        subprocess.run(
            trainfit(*ESTIMATE), env=environment, capture_output=True, text=True, check=True
        ).stdout
        for environment in (coloured, plain)
    ]
    cyan = "\x1b[36m"
    assert [cyan in output for output in outputs] == [True, False]


def test_serve_answers_where_it_is_told_to() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        trainfit("serve", "--port", str(port)), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until_ready(url, process)
            assert httpx.get(f"{url}/livez").text == "ok"
        finally:
            process.terminate()
            process.communicate(timeout=30)
