"""Builds the guide into the package. It fails where a link or an anchor leads nowhere, and leaves
the guide as it was.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.guide.site import finish
from tools.guide.sources import ROOT, gather

SITE = ROOT / "service/trainfit/web/site"


def main() -> None:
    with TemporaryDirectory() as folder:
        sources, site = Path(folder, "sources"), Path(folder, "site")
        gather(sources)
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)],
            cwd=ROOT,
            # Where MkDocs finds them, and without what Material says of its successors each time.
            env={**os.environ, "GUIDE_SOURCES": str(sources), "NO_MKDOCS_2_WARNING": "1"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        finish(site)
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.copytree(site, SITE)


if __name__ == "__main__":
    main()
