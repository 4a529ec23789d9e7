"""What the presets of Primus say: a trainer's and a model's, by release.

`presets.json` has, of every preset, what decides memory and differs from the backend's own default.
A row holds for the releases from `since` to `until`, by their numbers; a model of Megatron-LM's
counts over the preset `language_model.yaml`, and null takes out what that sets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.primus.experiment import Experiment
from trainfit.launch.settings import Setting
from trainfit.launch.torchtitan.releases import release_named

TORCHTITAN = "torchtitan"
BASE = "language_model.yaml"
MODULES, MODELS = "modules", "models"


@dataclass(frozen=True, slots=True)
class PrimusRelease:
    """A release of Primus, its place among all, and the torchtitan that it comes with."""

    number: int
    name: str
    torchtitan: str


class Preset(NamedTuple):
    """What a trainer and a model say together in a release."""

    release: PrimusRelease
    settings: Mapping[str, Setting]


def preset(experiment: Experiment, version: str | None, draft: Draft) -> Preset:
    """The presets that an experiment names, as the release that is named has them, else as each
    that differs may. Raises LaunchError where none has them, or the release is not known.
    """
    framework, module, model = str(experiment.framework.value), experiment.module, experiment.model
    found: list[Preset] = []
    for release in _with_keys(_releases(version), experiment):
        said = _settings(framework, module, model, release)
        each = None if said is None else Preset(release, said)
        if each is not None and not any(_same(each, other, framework) for other in found):
            found.append(each)
    if not found:
        whose = "Primus" if version is None else f"Primus {version}"
        named = f"{module.value} and {model.value}"
        message = f"{whose} has no presets {named} of {framework} that are known"
        raise LaunchError(Complaint.at(model, message))
    chosen = draft.fork.choose(found)
    if len(found) > 1:
        draft.releases = f"Primus {chosen.release.name}"
    return chosen


def _with_keys(
    releases: Sequence[PrimusRelease], experiment: Experiment
) -> Sequence[PrimusRelease]:
    """Those of these releases whose torchtitan has most of the keys of an experiment for it."""
    if experiment.framework.value != TORCHTITAN:
        return releases
    said = experiment.overrides.keys()
    known = [len(said & release_named(each.torchtitan).keys) for each in releases]
    return [each for each, count in zip(releases, known, strict=True) if count == max(known)]


def _same(one: Preset, other: Preset, framework: str) -> bool:
    """Whether two releases make the same job of the presets."""
    values = [{key: each.value for key, each in preset.settings.items()} for preset in (one, other)]
    stacks = {one.release.torchtitan, other.release.torchtitan}
    return values[0] == values[1] and (framework != TORCHTITAN or len(stacks) == 1)


def _settings(
    framework: str, module: Setting, model: Setting, release: PrimusRelease
) -> dict[str, Setting] | None:
    """The trainer's value counts for a key that both have (parse_trainer_module)."""
    found: dict[str, Setting] = {}
    for kind, named in ((MODELS, model), (MODULES, module)):
        name = _file_name(str(named.value))
        values = _row(framework, kind, name, release.number)
        if values is None:
            return None
        base = _row(framework, kind, BASE, release.number) if kind == MODELS else None
        for key, value in {**(base or {}), **values}.items():
            if value is not None:
                whose = f"Primus {release.name}, {name}"
                found[key] = Setting(key, value, f"preset {name}", None, whose=whose)
    return found


def _file_name(name: str) -> str:
    return name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"


def _row(framework: str, kind: str, name: str, number: int) -> Mapping[str, Any] | None:
    rows = _data()[framework][kind].get(name, ())
    return next((row["set"] for row in rows if row["since"] <= number <= row["until"]), None)


def _releases(version: str | None) -> Sequence[PrimusRelease]:
    """The releases that are meant, the latest first. Raises LaunchError for one not known."""
    every = [PrimusRelease(number, **each) for number, each in enumerate(_data()["releases"])][::-1]
    if version is None:
        return every
    meant = [each for each in every if each.name.removeprefix("v") == version.removeprefix("v")]
    if not meant:
        known = ", ".join(each.name for each in every)
        raise LaunchError(Complaint(f"framework_version: of Primus {known} are known"))
    return meant


@cache
def _data() -> Any:
    return json.loads((files(__package__) / "presets.json").read_text("utf-8"))
