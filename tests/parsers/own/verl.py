"""What Hydra makes of words over verl's own config."""

from __future__ import annotations

from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.parsers import bare
from tests.parsers.answering import answer

CONFIG = bare.put("verl") / "trainer/config"


def parsed(words: list[str]) -> dict[str, Any]:
    made = OmegaConf.to_container(compose("ppo_trainer", overrides=words), resolve=False)
    assert isinstance(made, dict)
    return {str(key): value for key, value in made.items()}


if __name__ == "__main__":
    with initialize_config_dir(str(CONFIG), version_base=None):
        answer(parsed)
