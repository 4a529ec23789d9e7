"""`trainfit snapshot`: recordings of PyTorch's allocator, reduced where they lie."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from trainfit.cli.errors import RefusedCommandError
from trainfit.cli.terminal import print_json
from trainfit.measurements.snapshots.recording import SnapshotError
from trainfit.measurements.snapshots.summary import summarize as summary_of
from trainfit.specs.snapshot import SnapshotSummary
from trainfit.workers.errors import TooMuchWorkError
from trainfit.workers.limits import WorkerLimits
from trainfit.workers.pool import Workers

MAX_FILE_BYTES = 512 * 2**20
MEMORY_OF_ITS_SIZE = 8
"""What is read takes 4 to 6 times the size of its file."""
CPU_SECONDS = 60

app = App(name="snapshot", help="Recordings of PyTorch's allocator.")

FILE = Parameter(help="What torch.cuda.memory._dump_snapshot has written.")
RANK = Parameter(help="Whose it is, among all GPUs of the run.")


@app.command
def summarize(file: Annotated[Path, FILE], /, *, rank: Annotated[int | None, RANK] = None) -> None:
    """Print what a recording says: sizes, how many, phases and stacks without paths.

    A recording is a pickle. Nothing that it names is looked up, and it is read in a process with
    limits of memory and time.
    """
    try:
        size = file.stat().st_size
    except OSError as error:
        raise RefusedCommandError(f"trainfit: {file}: {error.strerror}") from None
    if size > MAX_FILE_BYTES:
        raise RefusedCommandError(f"trainfit: {file}: longer than {MAX_FILE_BYTES} bytes")
    limits = WorkerLimits(2**28 + MEMORY_OF_ITS_SIZE * size, CPU_SECONDS)
    try:
        found = asyncio.run(_in_worker(limits, file, rank))
    except TooMuchWorkError:
        message = f"trainfit: {file}: takes more memory or time than a recording of its size does"
        raise RefusedCommandError(message) from None
    if isinstance(found, str):
        raise RefusedCommandError(f"trainfit: {file}: {found}")
    print_json(found.model_dump_json().encode())


async def _in_worker(limits: WorkerLimits, file: Path, rank: int | None) -> SnapshotSummary | str:
    return await Workers({"reading": 1}, limits).run("reading", summarized, file, rank)


def summarized(path: Path, rank: int | None) -> SnapshotSummary | str:
    """The summary, or why there is none. This runs in the worker."""
    try:
        with path.open("rb") as file:
            return summary_of(file, rank)
    except (SnapshotError, OSError) as error:
        return str(error)
