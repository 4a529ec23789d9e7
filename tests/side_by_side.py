"""Tests run by several processes, which are forked once all tests are collected: to load and to
collect them takes each process that does it anew seconds.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Literal, NamedTuple

import pytest

DIVIDED = (
    "tests/e2e/test_page.py",
    "tests/contract/test_schemathesis.py",
    "tests/shell/test_bash_itself.py",
)
"""Files whose tests several processes run, those of a file of scenarios, of an operation or of a
batch of scripts together.
"""
OF_THE_CORPUS = (
    "tests/accuracy/",
    "tests/decisions/test_ground_truth.py",
    "tests/test_docs.py",
)
"""Files that look at the same rows: one process prices each of these once."""
LONGEST = (
    *DIVIDED,
    *OF_THE_CORPUS,
    "tests/contract/test_generators.py",
    "tests/questions/",
    "tests/decisions/",
    "tests/deploy/",
)
"""What is begun first where several processes run tests, so that none is waited for at the end."""
NUMBER_BYTES = 2
"""Of the number of a group."""


def together(nodeid: str) -> str:
    """What tests of one process have in common, as what they share is made for each process: their
    file, the corpus, and of a file that is divided how their parameters begin.
    """
    path, _, test = nodeid.partition("::")
    if path.startswith(OF_THE_CORPUS):
        return "the corpus"
    first = re.search(r"\[([^:\]]+)", test)
    return f"{path} {first[1]}" if path in DIVIDED and first else path


def pytest_addoption(parser: pytest.Parser) -> None:
    # A lower-case letter is pytest's own, save for what everyone has used for this.
    parser.getgroup("side by side")._addoption(
        "-n",
        "--numprocesses",
        type=int,
        default=0,
        metavar="N",
        help="Have N processes run the tests side by side, and then this one those that run alone.",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.numprocesses > 0:
        config.pluginmanager.register(SideBySide(config.option.numprocesses), "side_by_side")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest first."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


class ForkedTests(NamedTuple):
    """A process that runs tests, what it says of them, and what becomes readable when it ends."""

    pid: int
    said: Connection
    ending: int


class Saying:
    """What a process says of its tests, in place of a terminal: which it begins, and reports."""

    def __init__(self, saying: Connection, terminal: object) -> None:
        self._saying = saying
        self._tw = terminal  # whose colours pytest asks for where an assertion is explained

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._saying.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._saying.send(report)


class SideBySide:
    """Runs the tests that were collected in so many processes, each group of them in one."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Literal[True] | None:
        if session.testsfailed or session.config.option.collectonly:
            return None
        groups: dict[str, list[pytest.Item]] = {}
        alone = []
        for item in session.items:
            if item.get_closest_marker("alone") is None:
                groups.setdefault(together(item.nodeid), []).append(item)
            else:
                alone.append(item)
        numbers = _numbers(len(groups))
        workers = []
        for _ in range(self._processes):
            said, saying = Pipe(duplex=False)
            pid = os.fork()
            if pid == 0:
                _become_worker(session.config, saying)
                _run(session, _taken(tuple(groups.values()), numbers))
                return True
            saying.close()
            workers.append(ForkedTests(pid, said, os.pidfd_open(pid)))
        os.close(numbers)
        _report(session, workers)
        _run(session, iter(alone))
        return True


def _numbers(count: int) -> int:
    """A pipe that holds as many numbers, from which each is read once."""
    numbers, filled = os.pipe()
    os.write(filled, b"".join(n.to_bytes(NUMBER_BYTES) for n in range(count)))
    os.close(filled)
    return numbers


def _taken(groups: Sequence[Sequence[pytest.Item]], numbers: int) -> Iterator[pytest.Item]:
    """The tests of the groups that this process takes, one group after the other."""
    while number := os.read(numbers, NUMBER_BYTES):
        yield from groups[int.from_bytes(number)]


def _run(session: pytest.Session, items: Iterator[pytest.Item]) -> None:
    """Run tests; what the next one does not need is taken down before it begins. Raises Failed
    where they are to stop after a failure.
    """
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        item = following


def _become_worker(config: pytest.Config, saying: Connection) -> None:
    """Say what happens to the process that forked this one, and capture output apart from it."""
    plugins = config.pluginmanager
    terminal = config.get_terminal_writer()
    plugins.unregister(name="terminalreporter")
    plugins.register(Saying(saying, terminal), "terminalreporter")
    capturing = plugins.getplugin("capturemanager")
    capturing.stop_global_capturing()
    capturing.start_global_capturing()
    capturing.suspend_global_capture()
    # What is kept for the next run, plugins leave to the process that has all reports.
    vars(config)["workerinput"] = {}


def _report(session: pytest.Session, workers: Sequence[ForkedTests]) -> None:
    """Report what workers say until all have ended. Raises Failed where one does before its time,
    or where tests are to stop after a failure.
    """
    hook = session.config.hook
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    reporter.showfspath = False  # as files come by turns
    at: dict[ForkedTests, str] = {}

    def heard(worker: ForkedTests) -> bool:
        try:
            said = worker.said.recv()
        except EOFError:
            return False
        if isinstance(said, str):
            at[worker] = said
        else:
            hook.pytest_runtest_logreport(report=said)
        return True

    with selectors.DefaultSelector() as waiting:
        for worker in workers:
            waiting.register(worker.said, selectors.EVENT_READ, worker)
            waiting.register(worker.ending, selectors.EVENT_READ, worker)
        while waiting.get_map() and not session.shouldfail:
            for key, _ in waiting.select():
                if key.fd not in waiting.get_map():
                    continue  # what was said last is heard when its end is seen
                worker = key.data
                if key.fileobj is worker.said:
                    if not heard(worker):
                        waiting.unregister(worker.said)
                    continue
                while worker.said.poll() and heard(worker):
                    pass
                waiting.unregister(worker.ending)
                if worker.said in waiting.get_map():
                    waiting.unregister(worker.said)
                status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
                if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                    session.shouldfail = f"a process ended with {status} in {at.get(worker)}"
    if session.shouldfail:
        _stop(workers)
    for worker in workers:
        worker.said.close()
        os.close(worker.ending)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def _stop(workers: Sequence[ForkedTests]) -> None:
    """Have those end that run, as an interrupt does, and wait until they have."""
    for worker in workers:
        with suppress(ProcessLookupError, ChildProcessError):
            signal.pidfd_send_signal(worker.ending, signal.SIGINT)
            os.waitpid(worker.pid, 0)
