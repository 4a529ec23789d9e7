"""Price every usable row of files of ground truth and show how close the service comes."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.accuracy.report import as_json, as_text
from tests.accuracy.schemas import files_of, outcomes_of


def main() -> int:
    """0, or 1 where the runner or the service broke on a row."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__)
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="rows, as JSON lines, or a folder of them",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    outcomes = [
        outcome
        for path in options.files
        for file in files_of(path)
        for outcome in outcomes_of(file)
    ]
    if options.json:
        json.dump(as_json(outcomes), sys.stdout, indent=1)
        print()
    else:
        print(as_text(outcomes))
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
