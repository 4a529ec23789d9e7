"""Takes the pictures of the page that the documentation shows, in Chromium: `make pictures`.

What a browser draws depends on its fonts, so no test compares them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.programs import CHROMIUM, installed
from tests.serving import running_service
from tools.figures import IMAGES

SCRIPT = IMAGES.parents[1] / "tests" / "e2e" / "pictures.js"

QUIET = {"TRAINFIT_LOG_LEVEL": "error", "TRAINFIT_REQUEST_TIMEOUT_SECONDS": "120"}


def main() -> None:
    chromium, node = installed(*CHROMIUM), shutil.which("node")
    if chromium is None or node is None or not (SCRIPT.parent / "node_modules").is_dir():
        sys.exit("pictures need chromium, node and `npm ci --prefix tests/e2e`")
    with running_service(**QUIET) as service:
        environment = {**os.environ, "PAGE_ORIGIN": service.url, "CHROMIUM": chromium}
        subprocess.run([node, str(SCRIPT), str(IMAGES)], env=environment, check=True)


if __name__ == "__main__":
    main()
