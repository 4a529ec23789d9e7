"""Megatron-Bridge's recipes by name: what each sets of a container, as its releases have it.

`bridge_recipes.json` has the settings that decide memory of every recipe of a model of the Hub;
`kinds` are what most of a kind set, and a recipe's `set` what it says otherwise, null for nothing.
Recipes that make their layers or their pipeline by functions of their own are not in it. Those that
call apply_flex_dispatcher_backend have what it sets on the GPU that they are for
(training/flex_dispatcher_backend.py). Of the recipes of benchmarks (perf_recipes), which are loaded
by the same names, it has those for Llama 3 and 3.1, DeepSeek-V3, Qwen3, GPT-OSS and Kimi K2; where
both packages have a name, it is theirs (scripts/training/recipe_runner.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.settings import Setting

MODES = {"pretrain": "pretrain", "sft": "sft", "lora": "peft"}
"""--mode beside --model -> the middle of the name of a recipe."""


class BridgeRecipe(NamedTuple):
    """What a recipe sets, in the releases that have it so, the latest first."""

    releases: tuple[str, ...]
    settings: Mapping[str, Any]


def named_by(options: Mapping[str, Setting]) -> tuple[str, Setting] | None:
    """The name of the recipe that --recipe, or --model with --mode, names, and its setting."""
    for option in ("--recipe", "--recipe_name"):
        if (setting := options.get(option)) is not None:
            return str(setting.value).rpartition(".")[2], setting
    model, mode = options.get("--model"), options.get("--mode")
    if model is None or mode is None or str(mode.value) not in MODES:
        return None
    return f"{model.value}_{MODES[str(mode.value)]}_config", model


def settings_of(
    options: Mapping[str, Setting], draft: Draft, version: str | None
) -> tuple[dict[str, Setting], str | None]:
    """The settings of the recipe that options name, as the release that is named has it, else as
    each that has it may, and that release; none where no recipe of this name is known. Raises
    LaunchError for a release whose recipes are not known.
    """
    named = named_by(options)
    known = () if named is None or named[1].unknown is not None else recipes().get(named[0], ())
    if named is None or not known:
        return {}, None
    name, _ = named
    meant = _of_release(known, version) if version is not None else known
    recipe = draft.fork.choose(meant)
    if len(meant) > 1:
        draft.releases = f"Megatron-Bridge {', '.join(recipe.releases)}"
    for setting in options.values():
        draft.recognise(setting)
    whose = f"Megatron-Bridge {recipe.releases[0]}, {name}"
    settings = {
        key: Setting(key, value, f"recipe {name}", None, whose=whose)
        for key, value in recipe.settings.items()
    }
    return settings, recipe.releases[0]


def _of_release(known: tuple[BridgeRecipe, ...], version: str) -> tuple[BridgeRecipe, ...]:
    release = version.removeprefix("v")
    found = tuple(each for each in known if release in each.releases)
    if not found:
        have = sorted({name for each in known for name in each.releases})
        message = f"this recipe is known of Megatron-Bridge {', '.join(have)}, not of {version}"
        raise LaunchError(Complaint(message))
    return found


@cache
def recipes() -> Mapping[str, tuple[BridgeRecipe, ...]]:
    """Every recipe by its names, as each release has it, the latest first."""
    read = json.loads((files(__package__) / "bridge_recipes.json").read_text("utf-8"))
    order = read["releases"]
    found: dict[str, list[BridgeRecipe]] = {}
    for row in read["recipes"]:
        settings = read["kinds"][row["kind"]] | row["set"]
        kept = {key: value for key, value in settings.items() if value is not None}
        for name in row["names"].split():
            found.setdefault(name, []).append(BridgeRecipe(tuple(row["releases"]), kept))
    return {
        name: tuple(sorted(each, key=lambda recipe: order.index(recipe.releases[0])))
        for name, each in found.items()
    }
