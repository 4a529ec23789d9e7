"""Writes openapi/openapi.json, the document that the service serves."""

from __future__ import annotations

from pathlib import Path

from trainfit.api.app import create_app
from trainfit.api.openapi import openapi_bytes
from trainfit.api.settings import ServiceSettings

DOCUMENT = Path(__file__).parents[1] / "openapi" / "openapi.json"


def served() -> bytes:
    """The document of an app made now."""
    return openapi_bytes(create_app(ServiceSettings()))


if __name__ == "__main__":
    DOCUMENT.write_bytes(served())
