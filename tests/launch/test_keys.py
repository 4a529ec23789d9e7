"""The tables of keys: what they hold, and how a key is found in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import trainfit.launch
from tests.launch.launches import within
from trainfit.launch.effects import Effect
from trainfit.launch.fields import as_field
from trainfit.launch.keys import UNKNOWN, KeyRow, Keys, table_of

TABLES = [
    (f"trainfit.launch.{path.parent.name}", name)
    for path in sorted(Path(trainfit.launch.__file__).parent.glob("*/keys.json"))
    for name in json.loads(path.read_text("utf-8"))
]
VALUES = TypeAdapter(list[bool | int | float | str | list[str] | dict[str, str] | None])
KEYS = Keys(
    {
        "plain": KeyRow(None),
        "switch": KeyRow(Effect("it is not modelled"), (False, None)),
        "section.": KeyRow(Effect("what is below is not modelled"), ()),
        "section.of.": KeyRow(None),
        "section.of.one": KeyRow(Effect("this one is not modelled"), ()),
        "fp8_*": KeyRow(Effect("fp8 is not modelled"), ()),
    }
)


@pytest.mark.parametrize(("package", "table"), TABLES)
def test_every_row_says_what_it_has_to(package: str, table: str) -> None:
    rows = table_of(package, table).rows
    assert rows
    for name, row in rows.items():
        assert row.effect is not None or not row.unless, name
        assert not row.unless or not name.endswith((".", "*")), name
        VALUES.validate_python(list(row.unless), strict=True)
        if row.effect is None:
            continue
        assert row.effect.why, name
        assert not row.effect.why.endswith("."), name
        told = row.effect.direction != "either" or row.effect.is_bounded
        assert not told or row.effect.source, f"{name}: who says in which direction?"
        for pointer, value in row.effect.within.items():
            as_field(pointer, value)


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
    effect = KEYS.effect_of(name, value)
    assert (effect.why if effect is not None else None) == why


def test_of_two_tables_the_later_counts() -> None:
    later = KEYS | Keys({"switch": KeyRow(None)})
    assert later.effect_of("switch", True) is None
    assert later.effect_of("plain", 1) is None


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


def test_a_key_of_many_parts_costs_no_more_than_its_row() -> None:
    keys = Keys({"a.": KeyRow(None), "b*": KeyRow(None), "c": KeyRow(None)})
    long = ".".join(["a"] * 300_000)
    with within(1):
        assert keys.effect_of(long, 1) is None
        assert keys.effect_of(f"b{long}", 1) is None
        assert keys.effect_of(f"c{long}", 1) is not None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a", True),
        ("a.b.c", True),
        ("ab", False),
        ("bat", True),
        ("b", True),
        ("c", True),
        ("cd", False),
    ],
)
def test_a_name_stands_for_what_is_below_it_or_begins_so(name: str, known: bool) -> None:
    keys = Keys({"a.": KeyRow(None), "b*": KeyRow(None), "c": KeyRow(None)})
    assert (keys.effect_of(name, 1) is None) is known
