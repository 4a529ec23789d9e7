"""The command line: what HTTP answers, at a terminal and in CI."""

from __future__ import annotations

from trainfit.cli.app import main

__all__ = ["main"]
