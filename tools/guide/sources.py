"""What the guide is built from: docs/, and what its pages link to beside it. Links in the
repository stay as GitHub follows them.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALSO = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "service/trainfit/web/static/icon.svg",
    "tools/guide/guide.css",
)
"""What mkdocs.yml names beside docs/."""
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)")


def gather(folder: Path) -> None:
    """Copy all that the guide is built from into an empty folder, with links that lead there."""
    for place in places():
        copy = folder / in_guide(place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            copy.write_text(led(place, (ROOT / place).read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(ROOT / place, copy)


def places() -> list[str]:
    """Files of the repository: those of docs/, what they link to, and what that links to in turn,
    by their paths.
    """
    docs = (path for path in sorted((ROOT / "docs").rglob("*")) if path.is_file())
    found = [*(path.relative_to(ROOT).as_posix() for path in docs), *ALSO]
    for place in found:
        if place.endswith(".md"):
            found.extend(each for each in dict.fromkeys(linked(place)) if each not in found)
    return found


def linked(place: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    for link in LINK.findall((ROOT / place).read_text("utf-8")):
        aim = target(place, link)
        if aim is not None:
            yield aim


def led(place: str, markdown: str) -> str:
    """A page whose links lead to where their targets are in the guide."""
    here = posixpath.dirname(in_guide(place)) or "."

    def replaced(link: re.Match[str]) -> str:
        aim = target(place, link[0])
        return link[0] if aim is None else posixpath.relpath(in_guide(aim), here)

    return LINK.sub(replaced, markdown)


def target(place: str, link: str) -> str | None:
    """The file of the repository that a link of a page leads to, if there is one."""
    aim = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    return aim if (ROOT / aim).is_file() else None


def in_guide(place: str) -> str:
    """The path in the guide of a file of the repository. None is hidden there, as MkDocs and web
    servers pass over what is.
    """
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return f"repository/{place.lstrip('.')}"
