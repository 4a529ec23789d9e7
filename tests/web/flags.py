"""The flags that the page writes, as the command line has them: generated, and compared by a test.

`python -m tests.web.flags --update` writes the file.
"""

from __future__ import annotations

import json
import sys

from trainfit.cli.flags import flags
from trainfit.web.page import STATIC

FILE = STATIC / "share" / "flags.json"


def generated() -> str:
    names = {pointer: flag.names[0] for pointer, flag in sorted(flags().items())}
    return json.dumps(names, indent=1) + "\n"


if __name__ == "__main__":
    if "--update" in sys.argv:
        FILE.write_text(generated())
    elif FILE.read_text() != generated():
        sys.exit("not what is generated; run `make openapi`")
