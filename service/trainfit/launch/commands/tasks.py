"""Tasks of SkyPilot and of dstack: a text for the shell, on so many nodes with GPUs.

Sources: SkyPilot's YAML specification and sky/skylet/constants.py (SKYPILOT_*), dstack's reference
of tasks (DSTACK_*) and its syntax of a GPU, name:memory:count in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.launch.program import Allocation, TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.shell.source import Source

_COUNT = re.compile(r"\d+")
_TEMPLATE = re.compile(r"\$\{\{[^}]*\}\}")
NODES, GPUS = "num_nodes", "accelerators"


def is_task(value: Any) -> bool:
    """Whether a value is a task: of SkyPilot, with `run` and resources, or of dstack."""
    if not isinstance(value, dict):
        return False
    sky = isinstance(value.get("run"), str) and isinstance(value.get("resources"), dict)
    return sky or (value.get("type") == "task" and isinstance(value.get("commands"), list))


@dataclass(frozen=True, slots=True)
class Task:
    """A task that was sent."""

    document: Document
    file: str

    def programs(self, bare: TrainingProgram) -> Iterator[tuple[Source, TrainingProgram]]:
        """What its shell runs on each node; what it sets up before is not followed."""
        value = self.document.value
        sky = "run" in value
        nodes, gpus, gpu = self._sky() if sky else self._dstack()
        given = {**_variables(nodes, gpus, sky=sky), **self._environment()}
        allocation = Allocation(nodes, gpus, gpu)
        read = [each.key for each in (nodes, gpus, gpu) if each is not None and each.line]
        others = [
            setting
            for key, setting in settings_of(self.document, self.file).items()
            if key not in (*read, "run", "commands") and not key.startswith("envs.")
        ]
        program = replace(
            bare,
            environment={**given, **bare.environment},
            allocation=allocation,
            irrelevant=(*bare.irrelevant, *others),
        )
        path: tuple[str, ...] = ("run",) if sky else ("commands",)
        listed = value.get("commands")
        text = value["run"] if sky else "\n".join(map(str, listed or ()))
        line = self._line(path)
        yield Source.of_script(_TEMPLATE.sub("", text), self.file, line), program

    def _sky(self) -> tuple[Setting | None, Setting | None, Setting | None]:
        """Nodes, GPUs of each and their model: `H100:8`, or {H100: 8}; of several any may come."""
        resources = self.document.value["resources"]
        asked = resources.get(GPUS)
        nodes = self._setting((NODES,), self.document.value.get(NODES) or 1)
        if isinstance(asked, dict) and len(asked) == 1:
            asked = ":".join(map(str, *asked.items()))
        if not isinstance(asked, str):
            return nodes, None, None
        name, _, count = asked.partition(":")
        path = ("resources", GPUS)
        number = self._setting(path, int(count) if _COUNT.fullmatch(count) else 1)
        return nodes, number, self._setting(path, name)

    def _dstack(self) -> tuple[Setting | None, Setting | None, Setting | None]:
        """A GPU is `H100:8`, `80GB:2` or {name: , count: }; a range of counts is not known."""
        value = self.document.value
        nodes = self._setting(("nodes",), value.get("nodes") or 1)
        resources = value.get("resources")
        asked = resources.get("gpu") if isinstance(resources, dict) else None
        path = ("resources", "gpu")
        if isinstance(asked, dict):
            parts = [str(asked.get("name") or ""), str(asked.get("count") or 1)]
        else:
            parts = [] if asked is None else str(asked).split(":")
        counts = [each for each in parts if _COUNT.fullmatch(each)]
        names = [each for each in parts if each and not each[0].isdecimal()]
        if not parts or any(".." in each and "GB" not in each for each in parts):
            return nodes, None, None
        gpus = self._setting(path, int(counts[-1]) if counts else 1)
        return nodes, gpus, self._setting(path, names[0]) if names else None

    def _environment(self) -> dict[str, Setting]:
        """`envs` of SkyPilot, and dstack's `env`: a mapping, or a list of NAME=value."""
        found: dict[str, Setting] = {}
        for part in ("envs", "env"):
            given = self.document.value.get(part)
            listed = given.items() if isinstance(given, dict) else _assigned(given)
            line = self._line((part,))
            for name, value in listed:
                if value is not None:
                    found[str(name)] = Setting(str(name), str(value), self.file, line)
        return found

    def _setting(self, path: tuple[str, ...], value: Any) -> Setting:
        return Setting(".".join(path), value, self.file, self._line(path))

    def _line(self, path: tuple[str, ...]) -> int:
        return self.document.line_of(json_pointer(path))


def _assigned(given: Any) -> Iterator[tuple[str, str | None]]:
    for each in given if isinstance(given, list) else ():
        name, sign, value = str(each).partition("=")
        yield name, value if sign else None


def _variables(nodes: Setting | None, gpus: Setting | None, *, sky: bool) -> Mapping[str, Setting]:
    """Variables by which a node knows how many there are, by the names of either."""
    found: dict[str, Setting] = {}
    names = ("SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE") if sky else DSTACKS
    for name, setting in zip(names, (nodes, gpus), strict=True):
        if setting is not None:
            found[name] = replace(setting, key=name, value=str(setting.value))
    if not sky and nodes is not None and gpus is not None:
        total = str(int(nodes.value) * int(gpus.value))
        found["DSTACK_GPUS_NUM"] = replace(gpus, key="DSTACK_GPUS_NUM", value=total)
    return found


DSTACKS = ("DSTACK_NODES_NUM", "DSTACK_GPUS_PER_NODE")
