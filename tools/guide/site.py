"""What becomes of a site before the service shows it."""

from __future__ import annotations

import posixpath
import re
import shutil
from hashlib import sha256
from pathlib import Path

SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
SCRIPTS = "assets/javascripts"
NOT_SHOWN = ("404.html", "sitemap.xml", "sitemap.xml.gz", f"{SCRIPTS}/lunr")
"""What only a site with an address of its own has, and search in other languages."""


def finish(site: Path) -> None:
    """Leave in a site what the service shows, under its policy that a browser runs files only."""
    for name in NOT_SHOWN:
        path = site / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for path in site.rglob("*.map"):
        path.unlink()
    for path in site.rglob("*.html"):
        path.write_text(_without_scripts(path, site), "utf-8")


def _without_scripts(path: Path, site: Path) -> str:
    """A page whose scripts have files of their own, named after what they say."""
    here = path.parent.relative_to(site).as_posix()

    def moved(script: re.Match[str]) -> str:
        name = f"{SCRIPTS}/{sha256(script[1].encode()).hexdigest()[:16]}.js"
        (site / name).write_text(script[1], "utf-8")
        return f'<script src="{posixpath.relpath(name, here)}"></script>'

    return SCRIPT.sub(moved, path.read_text("utf-8"))
