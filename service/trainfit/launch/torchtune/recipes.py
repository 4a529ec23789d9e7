"""torchtune's recipes: those that are read, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.settings import Setting

RECIPES = (
    "full_finetune_single_device",
    "full_finetune_distributed",
    "lora_finetune_single_device",
    "lora_finetune_distributed",
    "lora_dpo_single_device",
    "lora_dpo_distributed",
    "full_dpo_distributed",
)
OTHER_RECIPES: Mapping[str, str] = {
    "knowledge_distillation": "a teacher beside the model that is trained is not modelled",
    "ppo": "policy, value and reward models on one card are not modelled",
    "grpo": "policy and reference models on one card are not modelled",
    "qat": "fake quantisation keeps tensors that are not modelled",
    "early_exit": "losses of early layers are not modelled",
    "generate": "trains nothing",
    "eval": "trains nothing",
    "quantize": "trains nothing",
}
"""Words in the names of other recipes -> why they are refused."""
UNTRAINED: Mapping[str, str] = {
    "tasks": "evaluates a model",
    "prompt": "generates text",
    "quantizer": "quantises a model",
}
"""Sections of configs that name no optimizer -> what their recipes do
(recipes/eleuther_eval.py, generate.py, quantize.py).
"""


def refuse_others(recipe: str | None, settings: Mapping[str, Setting]) -> None:
    """Raises LaunchError for a recipe that is not read, by its name or by its config."""
    if recipe is not None and recipe not in RECIPES:
        known = (why for word, why in OTHER_RECIPES.items() if word in recipe)
        message = f"the recipe {recipe}: {next(known, 'it is not known')}"
        raise LaunchError(Complaint(f"{message}; there are {', '.join(RECIPES)}"))
    sections: dict[str, Setting] = {}
    for key, each in settings.items():
        sections.setdefault(key.partition(".")[0], each)
    for section, does in UNTRAINED.items() if "optimizer" not in sections else ():
        if section in sections:
            message = f"this config {does} and names no optimizer: it trains nothing"
            raise LaunchError(Complaint.at(sections[section], message))
