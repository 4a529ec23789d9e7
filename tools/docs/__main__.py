"""Writes what is generated into every page, and says which pages that changed."""

from __future__ import annotations

from tools.docs.pages import ROOT, generated
from tools.docs.tutorials import TUTORIALS, followed
from trainfit.api.logs import configure_logs


def main() -> None:
    configure_logs("error")
    tutorials = {path: followed(path.read_text("utf-8")) for path in TUTORIALS}
    for path, text in {**generated(), **tutorials}.items():
        if not path.exists() or path.read_text("utf-8") != text:
            print(path.relative_to(ROOT))
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
