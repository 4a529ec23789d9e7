"""A repository to check."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.deploy.hosts import CI, FITS, TOO_LONG, loaded


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A user's repository: the two example jobs, one that fits its card and one that does not."""
    folder = tmp_path / "repository"
    folder.joinpath("jobs", "long").mkdir(parents=True)
    fits, too_long = loaded(CI / "example-jobs.yaml")["jobs"]
    folder.joinpath("jobs", FITS).write_text(yaml.safe_dump(fits), "utf-8")
    folder.joinpath("jobs", "long", TOO_LONG).write_text(yaml.safe_dump(too_long), "utf-8")
    return folder
