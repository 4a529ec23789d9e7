"""Published speed of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from tests.accuracy.outcomes import UnusableRowError

Row = dict[str, Any]


def group(row: Row) -> str:
    return str(row["family"])


def price(row: Row, folder: Path) -> NoReturn:  # noqa: ARG001
    """The service estimates no step time, and the memory of these runs stands in other rows."""
    raise UnusableRowError("no step time is estimated")
