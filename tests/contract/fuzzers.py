"""Runs of schemathesis, forked from a process that has loaded it: half of a run is imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
USED = (
    "hypothesis.strategies",
    "requests",
    "schemathesis.cli.commands.run.executor",
    "schemathesis.cli.commands.run.handlers.output",
    "schemathesis.engine.run.probes",
    "schemathesis.engine.run.unit",
    "schemathesis.engine.run.unit._hypothesis_executor",
    "schemathesis.specs.openapi.checks",
    "schemathesis.specs.openapi.examples",
    "schemathesis.specs.openapi.negative",
)
"""What a run loads only when it has begun."""


class Fuzzer:
    """The process that has loaded schemathesis."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, words: Sequence[str], folder: Path) -> tuple[int, str]:
        """The exit status of a run in a folder, and what it said."""
        said = folder / "said.txt"
        asked, ended = self._process.stdin, self._process.stdout
        assert asked is not None
        assert ended is not None
        print(json.dumps([words, str(folder), str(said)]), file=asked, flush=True)
        return int(ended.readline()), said.read_text("utf-8")


@contextmanager
def loaded_fuzzer() -> Iterator[Fuzzer]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.contract.fuzzers"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Fuzzer(process)


def _main() -> None:
    """Fork a run for each line that comes."""
    main = import_module("schemathesis.cli").schemathesis
    for name in USED:
        import_module(name)
    for line in sys.stdin:
        words, folder, said = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(main, words, folder, said)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(
    main: Callable[[list[str]], object], words: list[str], folder: str, said: str
) -> NoReturn:
    os.chdir(folder)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    code = 1
    try:
        main(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _main()
