"""Every key of a real config.json is read, or stands on the list of those that decide no memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from trainfit.architectures.config import Config, ConfigError
from trainfit.architectures.registry import parse_config
from trainfit.catalog.configs import bundled_config, bundled_ids

DATA = Path(__file__).parents[1] / "data"
UNREAD = yaml.safe_load((DATA / "unread_config_keys.yaml").read_text("utf-8"))
EVERYWHERE = {name for group in UNREAD["everywhere"] for name in group["keys"]}
IN_PLACES = {
    (model_type, pointer)
    for group in UNREAD["in_places"]
    for model_type, pointers in group["keys"].items()
    for pointer in pointers
}
Place: TypeAlias = tuple[str, str]
"""The model_type of a config, and the pointer to a key in it."""


class Watched(dict[str, Any]):
    """A section of a config.json that notes which of its keys are asked for."""

    def __init__(self, values: Mapping[str, Any], path: str, noted: set[str]) -> None:
        super().__init__(values)
        self._path, self._noted = path, noted

    def __getitem__(self, key: str) -> Any:
        self._noted.add(f"{self._path}/{key}")
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._noted.add(f"{self._path}/{key}")
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._noted.add(f"{self._path}/{key}")
        return super().get(key, default)


def unread(section: Mapping[str, Any], noted: set[str], path: str = "") -> Iterator[str]:
    """Pointers to the keys that nobody asked for; of a section that nobody opened, to it alone."""
    for key, value in section.items():
        pointer = f"{path}/{key}"
        if pointer not in noted:
            yield pointer
        elif isinstance(value, dict):
            yield from unread(value, noted, pointer)


def configs() -> Iterator[dict[str, Any]]:
    for path in sorted((DATA / "corpus" / "hf_configs").glob("*.json")):
        yield json.loads(path.read_text("utf-8"))
    for hf_id in bundled_ids():
        bundled = bundled_config(hf_id)
        assert bundled is not None
        yield bundled.config


@cache
def places() -> frozenset[Place]:
    """Where a key of a config that can be read is not."""
    noted: set[str] = set()
    found: set[Place] = set()
    plain = Config.__init__

    def watching(self: Config, values: Mapping[str, Any], path: str = "") -> None:
        plain(self, Watched(values, path, noted), path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Config, "__init__", watching)
        for config in configs():
            noted.clear()
            try:
                parse_config(config)
            except ConfigError:
                continue
            found.update((config["model_type"], pointer) for pointer in unread(config, noted))
    return frozenset(found)


def name(place: Place) -> str:
    return place[1].rpartition("/")[2]


def test_every_key_is_read_or_decides_no_memory() -> None:
    assert {each for each in places() if name(each) not in EVERYWHERE} <= IN_PLACES


def test_the_list_has_only_what_is_not_read() -> None:
    assert {name(each) for each in places()} >= EVERYWHERE
    assert places() >= IN_PLACES
    assert not [each for each in IN_PLACES if name(each) in EVERYWHERE]


def test_a_key_that_nobody_reads_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = {"model_type": "llama", "kv_lora_rank": 512, "text_config": {"hidden_size": 64}}
    monkeypatch.setattr(f"{__name__}.configs", lambda: iter([strange]))
    found = places.__wrapped__()
    assert {("llama", "/kv_lora_rank"), ("llama", "/text_config")} <= found
