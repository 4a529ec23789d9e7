"""What torchtitan's parser makes of TOML and of the options over it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tests.parsers import bare
from tests.parsers.answering import answer

bare.put("torchtitan")

from torchtitan.config import ConfigManager  # noqa: E402


def parsed(words: list[str]) -> dict[str, Any]:
    return asdict(ConfigManager().parse_args(words))


if __name__ == "__main__":
    answer(parsed)
