"""Run specs and write rows, or run the rows of a file anew and compare to the byte."""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import Any

from tests.oracle.spec import Spec

Row = dict[str, Any]

NOT_COMPARED = ("peak_module", "torch", "wall_s")
"""A label that depends on the order of hooks, the build, and the time it took."""


def main() -> int:
    """0, or 1 where a figure is not what it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("file", type=Path, help="specs or rows, one JSON object a line")
    parser.add_argument("-o", "--output", type=Path, help="append rows to this file")
    parser.add_argument("--breakdown", type=Path, metavar="FOLDER", help="write what the peaks are")
    parser.add_argument("--requests", type=Path, metavar="FILE", help="add what is asked for")
    parser.add_argument("--check", action="store_true", help="compare with the figures of the file")
    parser.add_argument("--live", action="store_true", help="only rows that are marked as live")
    parser.add_argument("--only", default="", metavar="TEXT", help="only names that hold a text")
    parser.add_argument("--real", action="store_true", help="real data in place of fakes")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    chosen = (
        row
        for row in rows_of(options.file)
        if (row.get("live") or not options.live) and options.only in name_of(row)
    )
    if options.check:
        return check(chosen, options.real)
    for row in chosen:
        made, breakdown, requests = run(row["spec"], options.real)
        if options.requests:
            write_requests(options.requests, requests)
        say(made, f"{made['measured']['total_peak']:,} bytes in {made['measured']['peak_phase']}")
        if options.output:
            with options.output.open("a", encoding="utf-8") as output:
                output.write(json.dumps(row | made, separators=(",", ":")) + "\n")
        if options.breakdown:
            write_breakdown(options.breakdown, made | breakdown)
    return 0


def check(rows: Iterable[Row], real: bool) -> int:
    """Run rows anew, one on each core at a time; 1 where a figure is not what it was."""
    differing = 0
    with Pool() as pool:
        for made, found in pool.imap(partial(compared, real=real), rows):
            differing += bool(found)
            say(made, "; ".join(found) or "same")
    return int(differing > 0)


def compared(row: Row, real: bool) -> tuple[Row, list[str]]:
    made, _, _ = run(row["spec"], real)
    return made, differences(row["measured"], made["measured"])


def rows_of(file: Path) -> Iterator[Row]:
    """The rows of a file; a bare spec is a row without figures."""
    for line in file.read_text("utf-8").splitlines():
        if line.strip():
            row = json.loads(line)
            yield row if "spec" in row else {"spec": row}


def name_of(row: Row) -> str:
    return row["spec"].get("name") or "spec"


def run(given: Row, real: bool) -> tuple[Row, Row, Row]:
    """A row, the breakdown of its peaks, and the requests of both steps."""
    from tests.oracle.step import measure

    measured = measure(Spec.parse(given), real)
    row = {"spec": given, "measured": measured.figures, "trusted": True}
    requests = {
        "spec": given,
        "first_step": measured.first_step,
        "requests": measured.requests,
    }
    return row, measured.breakdown, requests


def differences(recorded: Row, measured: Row) -> list[str]:
    """The figures that are not what they were."""
    return [
        f"{name}: {recorded.get(name)} -> {measured.get(name)}"
        for name in sorted(recorded.keys() | measured.keys())
        if name not in NOT_COMPARED and recorded.get(name) != measured.get(name)
    ]


def write_breakdown(folder: Path, row: Row) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name_of(row).replace('/', '_')}.json"
    file.write_text(json.dumps(row, indent=1) + "\n", "utf-8")


def write_requests(file: Path, row: Row) -> None:
    """Add a line to a compressed file."""
    with gzip.open(file, "at", encoding="utf-8") as output:
        output.write(json.dumps(row, separators=(",", ":")) + "\n")


def say(row: Row, what: str) -> None:
    print(f"{name_of(row)} ({row['measured']['wall_s']} s): {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
