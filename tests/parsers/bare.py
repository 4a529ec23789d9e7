"""Packages of which only some modules are wanted, and not what their first import loads."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def put(*names: str) -> Path:
    """Have packages of these names whose modules can be imported, and that hold nothing else; the
    folder of the first of them.
    """
    top = names[0].partition(".")[0]
    found = importlib.util.find_spec(top)
    assert found is not None
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0])
    for name in names:
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return root
