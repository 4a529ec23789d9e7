"""What torchtune's parser makes of configs and of the words over them."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from tests.parsers import bare
from tests.parsers.answering import answer

bare.put("torchtune", "torchtune.config")

from torchtune.config._parse import TuneRecipeArgumentParser  # noqa: E402
from torchtune.config._utils import _merge_yaml_and_cli_args  # noqa: E402


def parsed(words: list[str]) -> dict[str, Any]:
    file, over = TuneRecipeArgumentParser().parse_known_args(words)
    made = OmegaConf.to_container(_merge_yaml_and_cli_args(file, over), resolve=True)
    assert isinstance(made, dict)
    return {str(key): value for key, value in made.items()}


if __name__ == "__main__":
    answer(parsed)
