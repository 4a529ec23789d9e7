"""`trainfit snapshot summarize`: real recordings, and what nobody should read."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.measurements.test_snapshots import dumped, recording, trace
from trainfit.cli.snapshot import summarized
from trainfit.specs.snapshot import SnapshotSummary
from trainfit.workers.errors import TooMuchWorkError
from trainfit.workers.limits import WorkerLimits
from trainfit.workers.pool import Workers


class Command:
    """What a pickle makes of it is the result of a command."""

    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/never",)


def nested(depth: int) -> bytes:
    return b"\x80\x04" + b"]" * depth + b"a" * (depth - 1) + b"."


SEGMENT = {"address": 0, "total_size": 2**21, "allocated_size": 0, "blocks": []}
HOSTILE = {
    "a class": pickle.dumps(Command()),
    "a class within": pickle.dumps({"segments": [Command()]}, 2),
    "an extension": b"\x80\x02\x82\x01.",
    "something outside": b"\x80\x02U\x01aQ.",
    "lists without end": nested(1_000_000),
    "a length that is not there": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "an array of a length": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
    "a place in its memory": b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b".",
    "nothing": b"",
    "no pickle": b"{}",
    "a number": pickle.dumps(5),
    "segments of numbers": pickle.dumps({"segments": [1, 2]}),
    "what is another's": pickle.dumps({"model": [1, 2]}),
    "sizes that no card has": pickle.dumps({"segments": [SEGMENT | {"total_size": 2**62}] * 9}),
    "more than was there": pickle.dumps(
        {"device_traces": [[{"action": "alloc", "addr": at, "size": 2**62} for at in range(9)]]}
    ),
    "a size below zero": pickle.dumps({"segments": [{"address": -1}]}),
    "sizes of texts": pickle.dumps({"device_traces": [[{"action": "alloc", "addr": "x"}]]}),
}


async def outcomes(folder: Path) -> dict[str, str]:
    """Why each is refused."""
    workers = Workers({"reading": 1}, WorkerLimits(2**28, 5))
    found = {}
    for name, content in HOSTILE.items():
        path = folder / "snapshot.pickle"
        path.write_bytes(content)
        try:
            result = await workers.run("reading", summarized, path, None)
        except TooMuchWorkError:
            result = "too much"
        assert not isinstance(result, SnapshotSummary), name
        found[name] = result
    return found


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    found = asyncio.run(outcomes(tmp_path))
    assert all(found.values())
    assert found["a class"].startswith("it names ")
    assert found["a class within"].startswith("it names ")
    assert not Path("/tmp/never").exists()


def test_a_refusal_names_the_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(HOSTILE["a class"])
    done = run(f"snapshot summarize {path}")
    assert done.code == 2
    assert done.err.startswith(f"trainfit: {path}: it names ")


def test_the_command_prints_what_reconcile_takes(run: Run, tmp_path: Path) -> None:
    path, summary = tmp_path / "snapshot.pickle", tmp_path / "summary.json"
    path.write_bytes(dumped(recording(trace("small_forward_fp32_128.json.gz"))).getvalue())
    done = run(f"snapshot summarize {path} --rank 3")
    assert done.code == 0, done.err
    assert SnapshotSummary.model_validate(json.loads(done.out)).rank == 3
    summary.write_text(done.out, "utf-8")
    told = run(f"reconcile meta-llama/Llama-3.1-8B --num-gpus 8 --snapshot {summary}")
    assert told.code == 0, told.err
    assert "recorded at the peak" in told.out
    assert "unmatched" in told.out
