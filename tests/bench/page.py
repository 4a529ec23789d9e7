"""How long a key press on the page takes until the answer to it is drawn, in Chromium."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from statistics import median, quantiles

from tests.programs import CHROMIUM, installed
from tests.serving import started_service

SCRIPT = Path(__file__).parents[1] / "e2e" / "latency.js"


def main() -> None:
    chromium, node = installed(*CHROMIUM), shutil.which("node")
    if chromium is None or node is None or not (SCRIPT.parent / "node_modules").is_dir():
        print("a key press on the page: needs chromium, node and `npm ci` in tests/e2e")
        return
    with started_service(TRAINFIT_LOG_LEVEL="error") as service:
        environment = {**os.environ, "PAGE_ORIGIN": service.url, "CHROMIUM": chromium}
        result = subprocess.run(
            [node, str(SCRIPT)], env=environment, capture_output=True, text=True, check=True
        )
    for runs, taken in json.loads(result.stdout).items():
        slowest = quantiles(taken, n=20)[-1]
        print(
            f"{f'a key press on the page, to the answer: {runs}':48s} {median(taken):9.0f} ms  "
            f"{slowest:6.0f} ms of 95% ({len(taken)} presses)"
        )


if __name__ == "__main__":
    main()
