"""The tables of keys: what they hold, and how a key is found in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

import trainfit.launch
from trainfit.launch.keys import UNKNOWN, Effect, Keys, Row, table_of

TABLES = [
    (f"trainfit.launch.{path.parent.name}", name)
    for path in sorted(Path(trainfit.launch.__file__).parent.glob("*/keys.json"))
    for name in json.loads(path.read_text("utf-8"))
]
VALUES = TypeAdapter(list[bool | int | float | str | list[str] | dict[str, str] | None])
KEYS = Keys(
    {
        "plain": Row("none"),
        "switch": Row("unmodelled", (False, None), "it is not modelled"),
        "section.": Row("unmodelled", (), "what is below is not modelled"),
        "section.of.": Row("none"),
        "section.of.one": Row("unmodelled", (), "this one is not modelled"),
        "fp8_*": Row("unmodelled", (), "fp8 is not modelled"),
    }
)


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_every_row_says_what_it_has_to(package: str, table: str) -> None:
    rows = table_of(package, table).rows
    assert rows
    for name, row in rows.items():
        assert row.effect in get_args(Effect), name
        assert row.effect == "unmodelled" or not row.unless, name
        assert not row.unless or not name.endswith((".", "*")), name
        assert row.note, name
        assert not row.note.endswith("."), name
        VALUES.validate_python(list(row.unless), strict=True)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("plain", 1, None),
        ("plain.below", 1, UNKNOWN),
        ("switch", False, None),
        ("switch", True, "it is not modelled"),
        ("section", 1, "what is below is not modelled"),
        ("section.any", 1, "what is below is not modelled"),
        ("section.of.all", 1, None),
        ("section.of.one", 1, "this one is not modelled"),
        ("sections", 1, UNKNOWN),
        ("fp8_recipe", "x", "fp8 is not modelled"),
        ("fp4", "x", UNKNOWN),
    ],
)
def test_the_nearest_name_counts(name: str, value: Any, why: str | None) -> None:
    assert KEYS.why_not(name, value) == why


def test_of_two_tables_the_later_counts() -> None:
    later = KEYS | Keys({"switch": Row("none")})
    assert later.why_not("switch", True) is None
    assert later.why_not("plain", 1) is None


def test_a_key_that_is_in_a_table_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "twice_told"
    package.mkdir()
    (package / "__init__.py").touch()
    rows = [{"keys": ["a b"], "effect": "none"}, {"keys": ["a"], "effect": "unmodelled"}]
    (package / "keys.json").write_text(json.dumps({"keys": rows}), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="keys has a twice"):
        table_of("twice_told")
