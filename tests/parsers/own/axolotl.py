"""What axolotl's schema makes of configs, on eight cards of compute capability 9.0.

Configs come as a JSON list on standard input. Of each the fields that are set are answered, or
null where the schema refuses it.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from typing import Any

from axolotl.utils.schemas.config import AxolotlConfigWCapabilities

CARD = {
    "capabilities": {
        "bf16": True,
        "tf32": True,
        "n_gpu": 8,
        "n_node": 1,
        "compute_capability": "sm_90",
    },
    "env_capabilities": {"torch_version": "2.13.0"},
}


def parsed(config: dict[str, Any]) -> dict[str, Any] | None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            made = AxolotlConfigWCapabilities(**config, **CARD)
    except (ValueError, TypeError):
        return None
    return dict(made.model_dump(exclude_none=True, mode="json"))


def main() -> None:
    logging.disable()
    json.dump([parsed(config) for config in json.load(sys.stdin)], sys.stdout, default=str)


if __name__ == "__main__":
    main()
