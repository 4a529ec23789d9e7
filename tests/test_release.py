"""A release is one command, tried on a repository of the files that it writes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tools.release import (
    CHANGES,
    PLACES,
    ROOT,
    RefusedError,
    check,
    contract_changes,
    dated,
    git,
    release,
    version_at,
    written,
)

NEXT = "9.8.7"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for path in (*PLACES, CHANGES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "Someone")
    git(tmp_path, "config", "user.email", "someone@example.com")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def test_a_release_is_committed_and_tagged(repository: Path) -> None:
    before = version_at(repository)
    check(repository, NEXT)
    release(repository, NEXT, written(repository, NEXT, "2030-01-02"), lambda: None)
    assert version_at(repository) == NEXT
    assert git(repository, "tag").split() == [f"v{NEXT}"]
    assert git(repository, "status", "--porcelain") == ""
    for path in PLACES:
        assert f"trainfit:{before}" not in (repository / path).read_text()
        assert f"@v{before}" not in (repository / path).read_text()
    head = (repository / CHANGES).read_text()
    assert f"## [Unreleased]\n\n## [{NEXT}] - 2030-01-02\n\n### Added\n" in head
    assert "This will be" not in head


def test_it_is_refused_where_it_cannot_be_the_next(repository: Path) -> None:
    check(repository, version_at(repository))  # nothing was released before
    git(repository, "tag", "v2.0.0")
    for version, why in {"2.0.0": "is a tag", "1.9.9": "v2.0.0 was", "2.1": "no version"}.items():
        with pytest.raises(RefusedError, match=why):
            check(repository, version)
    (repository / CHANGES).write_text("changed")
    with pytest.raises(RefusedError, match="not committed"):
        check(repository, "2.1.0")


def test_a_release_changes_something() -> None:
    with pytest.raises(RefusedError, match="nothing stands"):
        dated("## [Unreleased]\n\n## [1.0.0] - 2030-01-02\n\n- All.\n", "1.0.1", "2030-01-03")


def test_what_breaks_is_named() -> None:
    before = {"paths": {"/a": {"get": {"operationId": "a", "responses": {}}}}}
    after = {"paths": {"/b": {"get": {"operationId": "b", "responses": {}}}}}
    schemas: dict[str, Any] = {"components": {"schemas": {}}}
    assert contract_changes(before | schemas, after | schemas) == [
        "operation added: GET /b",
        "operation removed: GET /a",
        "BREAKS GET /a: removed",
    ]


def test_the_version_stands_nowhere_else() -> None:
    """In what people copy: examples, manifests and pages."""
    version = version_at(ROOT)
    marks = [
        f"{mark}{version}" for mark in ("trainfit:", "ref: v", "rev: v", "github@v", "newTag: ")
    ]
    pages = [ROOT / "README.md", *(ROOT / "deploy").rglob("*.*ml"), *(ROOT / "docs").rglob("*.md")]
    named = {
        str(page.relative_to(ROOT))
        for page in pages
        if any(mark in page.read_text() for mark in marks)
    }
    assert named == PLACES.keys() - {"service/trainfit/__init__.py"}
