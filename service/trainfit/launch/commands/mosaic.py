"""Runs of MosaicML's platform (mcli): a text for the shell, on so many GPUs, and its parameters.

Source: MosaicML's documentation of run configurations (compute, env_variables, parameters): the
parameters are mounted as a YAML file, and WORLD_SIZE is the number of GPUs of all nodes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.shell.source import Source
from trainfit.specs.launch import LaunchFile

PARAMETERS = "/mnt/config/parameters.yaml"
GPUS = ("compute", "gpus")
VARIABLES = "env_variables"


def is_mosaic_run(value: Any) -> bool:
    """Whether a value is a run's configuration: an image and what it runs on some compute."""
    text = isinstance(value, dict) and isinstance(value.get("command"), str)
    return text and "image" in value and isinstance(value.get("compute"), dict)


@dataclass(frozen=True, slots=True)
class MosaicRun:
    """A run that was sent."""

    document: Document
    file: str

    def with_parameters(self, bare: TrainingProgram, content: str) -> TrainingProgram:
        """The program with the parameters as a file, whose lines are those of the run's own."""
        if not isinstance(self.document.value.get("parameters"), dict):
            return bare
        lines = content.splitlines()
        start = self.document.line_of("/parameters")
        below = lines[start:]
        end = next((at for at, each in enumerate(below) if each[:1].strip(" #")), len(below))
        text = "\n" * start + textwrap.dedent("\n".join(below[:end])) + "\n"
        file = LaunchFile.model_construct(path=self.file, content=text)
        files = {path: each for path, each in bare.files.items() if path != self.file}
        return replace(bare, files={**files, PARAMETERS: file})

    def programs(self, bare: TrainingProgram) -> Iterator[tuple[Source, TrainingProgram]]:
        """What its shell runs on each node."""
        value = self.document.value
        given = dict(self._environment())
        gpus = value["compute"].get("gpus")
        if gpus is not None:
            line = self.document.line_of(json_pointer(GPUS))
            given["WORLD_SIZE"] = Setting(".".join(GPUS), str(gpus), self.file, line)
        others = [
            setting
            for key, setting in settings_of(self.document, self.file).items()
            if key not in ("command", ".".join(GPUS))
            and not key.startswith(("parameters.", f"{VARIABLES}."))
        ]
        program = replace(
            bare,
            environment={**given, **bare.environment},
            irrelevant=(*bare.irrelevant, *others),
        )
        line = self.document.line_of("/command")
        yield Source.of_script(value["command"], self.file, line), program

    def _environment(self) -> Iterator[tuple[str, Setting]]:
        """A mapping of names to values, or a list of such pairs as `key` and `value`."""
        given = self.document.value.get(VARIABLES)
        match given:
            case dict():
                pairs = list(given.items())
            case list():
                listed = (each for each in given if isinstance(each, dict))
                pairs = [(each.get("key"), each.get("value")) for each in listed]
            case _:
                return
        line = self.document.line_of(f"/{VARIABLES}")
        for name, value in pairs:
            if name is not None and value is not None:
                yield str(name), Setting(str(name), str(value), self.file, line)
