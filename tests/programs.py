"""Programs that tests run beside what the lock file installs."""

from __future__ import annotations

import os
import shutil

import pytest


def needed(program: str, *, package: str) -> str:
    """Where the program is. The test skips where it is not installed, and fails in CI."""
    found = shutil.which(program)
    if found is None:
        missing = f"{program} is not installed; it is in the Debian package {package}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found
