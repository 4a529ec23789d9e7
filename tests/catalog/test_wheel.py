"""The catalogue's data files ship with the package."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "service" / "trainfit" / "catalog"


def test_the_wheel_holds_every_data_file() -> None:
    shipped = {
        Path(file.path).resolve() for file in WheelBuilder(str(ROOT)).recurse_included_files()
    }
    data = set(CATALOG.rglob("*.json"))
    assert CATALOG / "gpus.json" in data
    assert {file.resolve() for file in data} <= shipped
