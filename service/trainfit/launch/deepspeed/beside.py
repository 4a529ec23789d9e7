"""DeepSpeed's configs that come with a tool, where a launch names one that was not sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting

Config = Mapping[str, Any]


class Beside(NamedTuple):
    """Configs by their paths, whose they are, and fields of a job that those of older releases set
    otherwise, and higher.
    """

    source: str
    configs: Mapping[str, Config]
    older: Mapping[str, Any]


@cache
def configs_of(tool: str) -> Beside:
    """The configs that come with this tool."""
    row = json.loads((files(__package__) / "configs.json").read_text("utf-8"))[tool]
    return Beside(row["source"], row["configs"], row["older"])


def config_beside(
    beside: Beside, program: TrainingProgram, named: Setting, draft: Draft
) -> dict[str, Setting] | None:
    """The config that a setting names, where it is one of these and was not sent."""
    path = str(named.value)
    if named.unknown is not None or program.file(path) is not None:
        return None
    found = next((each for each in beside.configs if f"/{path}".endswith(f"/{each}")), None)
    if found is None:
        return None
    if beside.older:
        why = "this file was not sent, and is read as it comes with the latest release"
        draft.leave_out(named, Effect(why, "raises", beside.source, within=beside.older))
    whose = f"{beside.source}, {found}"
    return {
        key: Setting(key, value, beside.source, None, whose=whose)
        for key, value in beside.configs[found].items()
    }
