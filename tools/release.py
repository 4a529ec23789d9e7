"""Makes a release: the version, the change log, the contract, a commit, a tag, what is installed.

Without --do it says what it would do. It never pushes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.breaking import RELEASED, breaking_changes
from tools.openapi import DOCUMENT, served

ROOT = Path(__file__).parents[1]
CHANGES = "CHANGELOG.md"
PLACES: Mapping[str, tuple[str, ...]] = {
    "service/trainfit/__init__.py": ('__version__ = "{}"',),
    "deploy/kubernetes/base/kustomization.yaml": ("newTag: {}",),
    "deploy/ci/github/example.yml": ("deploy/ci/github@v{}",),
    "deploy/ci/gitlab/example.gitlab-ci.yml": ("ref: v{}", "trainfit:{}"),
    "deploy/ci/pre-commit/example.pre-commit-config.yaml": ("rev: v{}",),
    "docs/ci-gate.md": ("deploy/ci/github@v{}",),
    "docs/deploy.md": ("--tag trainfit:{} ",),
}
"""Where the version stands, besides what is generated: the first is what is installed."""
UNRELEASED = re.compile(r"^## \[Unreleased\]\n+(This will be [\d.]+\.\n+)?(?=.)", re.M)


class RefusedError(Exception):
    """Why nothing is released."""


def version_at(root: Path) -> str:
    """The version that stands in the package."""
    found = re.search(r'^__version__ = "(.+)"$', (root / next(iter(PLACES))).read_text(), re.M)
    assert found is not None
    return found[1]


def parts(version: str) -> tuple[int, ...]:
    """What versions are ordered by."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise RefusedError(f"{version} is no version; give one as 1.2.3")
    return tuple(map(int, version.split(".")))


def check(root: Path, version: str) -> None:
    """Raises RefusedError where this cannot be the next release."""
    if git(root, "status", "--porcelain"):
        raise RefusedError("there are changes that are not committed")
    tags = git(root, "tag", "--list", "v*").split()
    if f"v{version}" in tags:
        raise RefusedError(f"v{version} is a tag already")
    last = max([parts(tag.removeprefix("v")) for tag in tags], default=(0, 0, 0))
    if parts(version) <= last:
        raise RefusedError(f"v{'.'.join(map(str, last))} was released already")


def written(root: Path, version: str, day: str) -> dict[str, str]:
    """The text of every file that names the version, as it is to be."""
    before = version_at(root)
    texts = {path: (root / path).read_text() for path in (*PLACES, CHANGES)}
    for path, forms in PLACES.items():
        for form in forms:
            if form.format(before) not in texts[path]:
                raise RefusedError(f"{path}: {form.format(before)} does not stand there")
            texts[path] = texts[path].replace(form.format(before), form.format(version))
    texts[CHANGES] = dated(texts[CHANGES], version, day)
    return texts


def dated(changes: str, version: str, day: str) -> str:
    """The change log with what is unreleased under this version. Raises RefusedError."""
    heading = UNRELEASED.search(changes)
    if heading is None or changes[heading.end() :].startswith("## "):
        raise RefusedError(f"{CHANGES}: nothing stands under [Unreleased]")
    now = f"## [Unreleased]\n\n## [{version}] - {day}\n\n"
    return changes[: heading.start()] + now + changes[heading.end() :]


def contract_changes(released: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """What is new, gone and broken in the OpenAPI document, a line each."""
    lines: list[str] = []
    for what, names in (("operation", _operations), ("schema", _schemas)):
        before, after = names(released), names(current)
        lines += [f"{what} added: {each}" for each in sorted(after - before)]
        lines += [f"{what} removed: {each}" for each in sorted(before - after)]
    return lines + [f"BREAKS {each}" for each in breaking_changes(released, current)]


def _operations(document: Mapping[str, Any]) -> set[str]:
    paths = document["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def _schemas(document: Mapping[str, Any]) -> set[str]:
    return set(document["components"]["schemas"])


def release(
    root: Path, version: str, texts: Mapping[str, str], generate: Callable[[], None]
) -> None:
    """Write the files, generate what follows from them, commit and tag."""
    for path, text in texts.items():
        (root / path).write_text(text)
    generate()
    git(root, "commit", "--quiet", "--all", "--message", f"Release {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"Trainfit {version}")


def generate() -> None:
    """Write what tells the version by itself, and the contract that is released."""
    for module in ("tools.openapi", "tools.docs"):
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True)
    RELEASED.write_bytes(DOCUMENT.read_bytes())


def build(root: Path) -> None:
    """Make the sdist and the wheel in dist/."""
    for kind in ("sdist", "wheel"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", "dist"]
        subprocess.run(command, cwd=root, check=True)


def git(root: Path, *words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.release", description=__doc__)
    parser.add_argument("version", help="1.2.3")
    parser.add_argument("--do", action="store_true", help="not only say what would be done")
    asked = parser.parse_args()
    try:
        check(ROOT, asked.version)
        texts = written(ROOT, asked.version, datetime.now(UTC).date().isoformat())
    except RefusedError as error:
        raise SystemExit(f"tools.release: {error}") from None
    print(*contract_changes(json.loads(RELEASED.read_bytes()), json.loads(served())), sep="\n")
    print("writes", *texts, "and what is generated")
    if asked.do:
        release(ROOT, asked.version, texts, generate)
        build(ROOT)
    print(f"{'tagged' if asked.do else 'would tag'} v{asked.version}; then:")
    print(f"  git push --follow-tags && docker build --tag trainfit:{asked.version} .")


if __name__ == "__main__":
    main()
