"""What NeMo 2's recipes set, by release.

`recipes.json` has of every recipe what decides memory and is not the default of Megatron's
dataclasses. Its first row says everything; the rows of later releases say what differs from it,
null for nothing. `variants` are what arguments of the recipe change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import words
from trainfit.launch.settings import Setting

PRETRAIN, FINETUNE = "pretrain", "finetune"
NODES, DEVICES = "trainer.num_nodes", "trainer.devices"
LENGTHS = ("data.seq_length", "data.packed_sequence_specs.packed_sequence_size")
STRATEGY = "trainer.strategy."
COPIED: Mapping[str, str] = {
    "num_nodes": NODES,
    "num_gpus_per_node": DEVICES,
    "tensor_parallelism": f"{STRATEGY}tensor_model_parallel_size",
    "pipeline_parallelism": f"{STRATEGY}pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": f"{STRATEGY}virtual_pipeline_model_parallel_size",
    "context_parallelism": f"{STRATEGY}context_parallel_size",
    "expert_parallelism": f"{STRATEGY}expert_model_parallel_size",
    "sequence_parallelism": f"{STRATEGY}sequence_parallel",
    "accumulate_grad_batches": "trainer.accumulate_grad_batches",
    "precision": "trainer.plugins.precision",
    "global_batch_size": "data.global_batch_size",
    "micro_batch_size": "data.micro_batch_size",
}
"""Arguments of recipes -> what they set as it is."""
IRRELEVANT = words(
    "dir name fn resume_path max_steps pipeline_parallelism_type gradient_clip_val "
    "val_check_interval log_every_n_steps limit_test_batches limit_val_batches "
    "warmup_steps constant_steps min_lr max_lr"
)


@dataclass(frozen=True, slots=True)
class RecipeCall:
    """A recipe as a launch calls it: with which arguments, and where."""

    kind: str
    name: str
    setting: Setting
    arguments: Mapping[str, Setting]

    def value(self, argument: str, default: Any = None) -> Any:
        given = self.arguments.get(argument)
        return default if given is None else given.value


class NemoRecipe(NamedTuple):
    """What a recipe sets in the releases that have it so, and what its arguments change."""

    releases: tuple[str, ...]
    settings: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    arguments: Sequence[str]
    packs: bool | str


def settings_of(called: RecipeCall, version: str | None, draft: Draft) -> dict[str, Setting]:
    """The settings of a recipe with its arguments, as the release that is named has it, else as
    each that differs may. Raises LaunchError where no recipe of this name is known.
    """
    known = recipes().get((called.kind, called.name), ())
    if not known:
        message = f"no recipe of NeMo 2 to {called.kind} {called.name} is known; it is a program"
        raise LaunchError(Complaint.at(called.setting, message))
    meant = known if version is None else _of_release(known, version)
    recipe = draft.fork.choose(meant)
    if len(meant) > 1:
        draft.releases = f"NeMo {', '.join(recipe.releases)}"
    draft.recognise(called.setting)
    whose = f"NeMo {recipe.releases[0]}, {called.name}"
    found = {
        key: Setting(key, value, f"recipe {called.name}", None, whose=whose)
        for key, value in _with_variants(called, recipe).items()
    }
    return found | dict(_said_by_arguments(called, recipe, draft))


def _of_release(known: Sequence[NemoRecipe], version: str) -> Sequence[NemoRecipe]:
    release = version.removeprefix("v").removeprefix("r")
    found = [each for each in known if any(_is_release(name, release) for name in each.releases)]
    if not found:
        have = ", ".join(name for each in known for name in each.releases)
        raise LaunchError(Complaint(f"this recipe is known of NeMo {have}, not of {version}"))
    return found


def _is_release(name: str, given: str) -> bool:
    return name.split(".")[:2] == given.split(".")[:2]


def _with_variants(called: RecipeCall, recipe: NemoRecipe) -> dict[str, Any]:
    """What it sets where arguments switch something on."""
    fast = called.value("performance_mode") is True
    scheme = called.value("peft_scheme", "lora")
    scheme = "none" if scheme is None else str(scheme).lower()
    packs = called.value("packed_sequence")
    if packs is None:
        packs = fast if recipe.packs == "performance" else recipe.packs
    plain = called.kind == PRETRAIN or scheme == "lora"
    names = [] if plain else [scheme]
    if fast:
        names.append("performance" if plain else f"{scheme} performance")
    if packs:
        names.append("packed")
    found = dict(recipe.settings)
    for name in names:
        found |= recipe.variants.get(name) or {}
    return {key: value for key, value in found.items() if value is not None}


def _said_by_arguments(
    called: RecipeCall, recipe: NemoRecipe, draft: Draft
) -> Iterator[tuple[str, Setting]]:
    """The settings that arguments are, and the account of the others."""
    for name, setting in called.arguments.items():
        always = name in ("num_nodes", "num_gpus_per_node")
        if name in COPIED and (always or name in recipe.arguments):
            yield COPIED[name], setting
        elif name == "seq_length" and setting.value is not None:
            draft.recognise(setting)
            packs = called.value("packed_sequence") or called.value("performance_mode")
            yield from ((key, setting) for key in LENGTHS[: 2 if packs else 1])
        elif name in IRRELEVANT:
            draft.ignore(setting)
        elif name not in recipe.arguments:
            draft.leave_out(setting, f"the recipe {called.name} has no such argument that is known")
        elif setting.unknown is not None or not _is_known(name, called, recipe):
            draft.leave_out(setting, "what the recipe makes of this is not known")
        else:
            draft.recognise(setting)


def _is_known(name: str, called: RecipeCall, recipe: NemoRecipe) -> bool:
    """Whether what this argument changes is in the data."""
    value = called.value(name)
    scheme = str(called.value("peft_scheme", "lora")).lower()
    if name == "peft_scheme":
        return value is None or scheme == "lora" or scheme in recipe.variants
    if name == "performance_mode":
        fast = "none performance" if scheme == "none" else "performance"
        return value is False or (fast in recipe.variants and scheme != "dora")
    if name == "packed_sequence":
        return value is not True or "packed" in recipe.variants
    return name == "seq_length"


@cache
def recipes() -> Mapping[tuple[str, str], tuple[NemoRecipe, ...]]:
    """Every recipe by what it does and its name, as each release has it, the latest first."""
    read = json.loads((files(__package__) / "recipes.json").read_text("utf-8"))
    return {
        (kind, name): tuple(_rows(rows, read["releases"]))[::-1]
        for kind in (PRETRAIN, FINETUNE)
        for name, rows in read[kind].items()
    }


def _rows(rows: Sequence[Mapping[str, Any]], releases: Sequence[str]) -> Iterator[NemoRecipe]:
    first = rows[0]
    for row in rows:
        whole = {**first, **row}
        yield NemoRecipe(
            tuple(releases[row["since"] : row["until"] + 1][::-1]),
            {**first["set"], **row["set"]},
            {**first["variants"], **row["variants"]},
            whole["arguments"],
            whole.get("packs", False),
        )
