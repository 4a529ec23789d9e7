"""Releases of the libraries that a run is made of: names and defaults differ between them."""

from __future__ import annotations

import re
from typing import NamedTuple

Release = tuple[int, ...]
LATEST: Release = (9999,)
"""Stands for the last release whose keys are in the lists."""

_ONE = re.compile(r"(?:([A-Za-z][\w-]+?)[\s=_-]*)?v?(\d+(?:\.\d+)*)\S*")


class Releases(NamedTuple):
    """The release of each library, the latest unless it is named."""

    transformers: Release = LATEST
    trl: Release = LATEST


def releases_of(version: str | None, project: str = "transformers") -> Releases:
    """Read 4.57.1, v4.57.1 or transformers==4.57.1 trl==0.24.0; a number alone is the project's."""
    found: dict[str, Release] = {}
    for name, number in _ONE.findall(version or ""):
        release = tuple(int(part) for part in number.split("."))
        found[name.lower() or project] = release
    return Releases(found.get("transformers", LATEST), found.get("trl", LATEST))
