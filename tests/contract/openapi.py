"""Compares openapi/openapi.json with what the service serves; --update rewrites it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainfit.api.app import create_app
from trainfit.api.openapi import openapi_bytes
from trainfit.api.settings import Settings

DOCUMENT = Path(__file__).parents[2] / "openapi" / "openapi.json"


def served() -> bytes:
    """The document of an app made now."""
    return openapi_bytes(create_app(Settings()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.openapi", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the document")
    if parser.parse_args().update:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_bytes(served())
    elif served() != DOCUMENT.read_bytes():
        sys.exit(f"{DOCUMENT.name} is not what is served; run `make openapi`")


if __name__ == "__main__":
    main()
