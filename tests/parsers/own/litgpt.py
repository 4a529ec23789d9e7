"""What litgpt's parser makes of its commands."""

from __future__ import annotations

from typing import Any

from jsonargparse import capture_parser, set_docstring_parse_options
from litgpt.finetune.lora import setup
from litgpt.utils import CLI

from tests.parsers.answering import answer

set_docstring_parse_options(attribute_docstrings=True)
PARSER = capture_parser(lambda: CLI({"finetune_lora": setup}))


def parsed(words: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = PARSER.parse_args(words).as_dict()["finetune_lora"]
    return made


if __name__ == "__main__":
    answer(parsed)
