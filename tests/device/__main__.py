"""Run cases on the GPU of this machine, each in a process of its own, and write rows of them.

    python -m tests.device CASES.jsonl -o ROWS.jsonl [--record FOLDER] [--seconds N] [--only ID ...]
    python -m tests.device --rehearse

A case is a row of `tests/data/measured_here.jsonl` without `measured`: what it asks is what runs.
A rehearsal trains a model of a few kilobytes where there is no GPU, so that the first run on one
does not fail for a name that a release has changed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.device import recordings

SHOWN = ("max_allocated_gib", "max_reserved_gib", "device_gib", "failed")


def versions() -> str:
    """What ran."""
    return f"torch {torch.__version__}, transformers {transformers.__version__}"


def run(ask: dict[str, Any]) -> dict[str, Any]:
    """Run what is asked, by what knows how to."""
    if "launch" in ask:
        from tests.device import launches

        with tempfile.TemporaryDirectory() as folder:
            return launches.run(ask["launch"]["argv"], Path(folder))
    name = ask["framework"]["name"]
    measured: dict[str, Any] = importlib.import_module(f"tests.device.{name}").run(ask)
    return measured


def apart(case: dict[str, Any], seconds: int, folder: Path | None) -> dict[str, Any]:
    """The case as a row, run in a child that is stopped after so many seconds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setsid()
        signal.alarm(seconds)
        with contextlib.suppress(BaseException), open(write, "w") as answer:
            try:
                if folder:
                    recordings.record()
                result = run(case["ask"])
                if folder:
                    recordings.write(folder / f"{case['id']}.json.gz")
            except BaseException:
                result = {"failed": traceback.format_exc()[-1500:]}
            json.dump(result, answer)
        os._exit(0)
    os.close(write)
    with open(read) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    measured = json.loads(text) if text else {"failed": f"nothing came within {seconds} s"}
    return {**case, "ran": versions(), "measured": measured}


def forks() -> bool:
    """A child of this process can use the GPU: nothing that is imported has begun to."""
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="cuda").item()
        except BaseException as error:
            print("a child cannot use the GPU:", error)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def rehearse() -> dict[str, Any]:
    """What a run without a GPU says: figures of 0, and the seconds of a step."""
    words = "--block_size 16 --per_device_train_batch_size 1 --output_dir out --use_cpu"
    argv = f"python run_clm.py --model_name_or_path EleutherAI/pythia-70m --do_train {words}"
    return run({"launch": {"argv": argv}})


def main() -> int:
    """0, or 1 where no process can use a GPU."""
    parser = argparse.ArgumentParser(prog="python -m tests.device", description=__doc__)
    parser.add_argument("cases", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--record", type=Path, help="a folder for every request of every run")
    parser.add_argument("--seconds", type=int, default=90, help="what a case may take")
    parser.add_argument("--only", nargs="*", default=[], help="cases by their id")
    parser.add_argument("--rehearse", action="store_true", help="train on the CPU, and stop")
    options = parser.parse_args()
    if options.rehearse:
        print(json.dumps(rehearse()))
        return 0
    if not options.output:
        parser.error("say where rows go, with -o")
    if not forks():
        return 1
    cases = [json.loads(line) for path in options.cases for line in path.open()]
    folder = options.record and options.record.absolute()
    with options.output.open("a") as rows:
        for case in cases:
            if options.only and case["id"] not in options.only:
                continue
            begun = time.time()
            row = apart(case, options.seconds, folder)
            rows.write(json.dumps(row) + "\n")
            rows.flush()
            shown = {name: row["measured"].get(name) for name in SHOWN if name in row["measured"]}
            print(case["id"], f"{time.time() - begun:.0f} s", json.dumps(shown), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
