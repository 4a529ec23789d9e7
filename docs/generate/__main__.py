"""Write what is generated into every page, or with --check only compare."""

from __future__ import annotations

import argparse
import sys

from docs.generate.pages import ROOT, generated
from trainfit.api.logs import configure_logs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if any differs")
    check = parser.parse_args().check
    configure_logs("error")
    stale = {
        path: text
        for path, text in generated().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        print(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    if check and stale:
        sys.exit("not what is generated; run `make docs`")


if __name__ == "__main__":
    main()
