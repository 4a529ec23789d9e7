"""Writes the flags that the page shows, as the command line has them."""

from __future__ import annotations

import json

from trainfit.cli.flags import flags
from trainfit.web.page import STATIC

FILE = STATIC / "share" / "flags.json"


def generated() -> str:
    """The first name of each flag, by the pointer to its field."""
    names = {pointer: flag.names[0] for pointer, flag in sorted(flags().items())}
    return json.dumps(names, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(generated(), "utf-8")
