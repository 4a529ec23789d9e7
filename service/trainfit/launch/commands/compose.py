"""Services of a compose file that run a training program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.launch.program import Allocation, TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.shell.source import Source

Path = tuple[str | int, ...]
_VARIABLE = re.compile(r"(?<!\$)\$\{?([A-Za-z_]\w*)")


def is_compose(value: Any) -> bool:
    """Whether a value is a compose file: services, each of an image or built."""
    services = value.get("services") if isinstance(value, dict) else None
    return isinstance(services, dict) and any(
        isinstance(each, dict) and {"image", "build"} & each.keys() for each in services.values()
    )


@dataclass(frozen=True, slots=True)
class Compose:
    """A compose file that was sent."""

    document: Document
    file: str

    def programs(
        self, bare: TrainingProgram
    ) -> Iterator[tuple[Source | Sequence[Word], TrainingProgram]]:
        """The command of each service: words, or a text for the shell; with what it is given."""
        for name, service in self.document.value["services"].items():
            if not isinstance(service, dict):
                continue
            place = ("services", str(name))
            program = self._given(service, place, bare)
            command = [
                *self._words(service.get("entrypoint"), (*place, "entrypoint")),
                *self._words(service.get("command"), (*place, "command")),
            ]
            text = service.get("command")
            if isinstance(text, str) and service.get("entrypoint") is None:
                line = self._line((*place, "command"))
                yield Source.of_script(text.replace("$$", "$"), self.file, line), program
            elif command:
                yield command, program

    def _given(
        self, service: dict[str, Any], place: Path, bare: TrainingProgram
    ) -> TrainingProgram:
        gpus = self._gpus(service, place)
        allocation = Allocation(gpus_per_node=gpus)
        read = ("command", "entrypoint", "environment")
        keys = [".".join((*map(str, place), name)) for name in read]
        others = tuple(
            setting
            for key, setting in settings_of(self.document, self.file).items()
            if not any(f"{key}.".startswith(f"{each}.") for each in keys)
        )
        return replace(
            bare,
            environment={**self._environment(service, place), **bare.environment},
            allocation=allocation,
            irrelevant=(*bare.irrelevant, *others),
        )

    def _environment(self, service: dict[str, Any], place: Path) -> dict[str, Setting]:
        """A mapping, or a list of NAME=value; a name alone has the value of where it is started."""
        given = service.get("environment")
        at = (*place, "environment")
        if isinstance(given, dict):
            found = {name: (value, (*at, name)) for name, value in given.items()}
        elif isinstance(given, list):
            listed = [(str(each).partition("="), (*at, index)) for index, each in enumerate(given)]
            found = {name: (value if sign else None, path) for (name, sign, value), path in listed}
        else:
            found = {}
        return {name: self._variable(name, value, path) for name, (value, path) in found.items()}

    def _variable(self, name: str, value: Any, path: Path) -> Setting:
        line = self._line(path)
        if value is None:
            why = f"{name} is taken from where compose is started; give it in env"
            return Setting(name, f"${{{name}}}", self.file, line, why)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return Setting(name, text, self.file, line, _interpolated(text))

    def _words(self, value: Any, path: Path) -> Iterator[Word]:
        """The words of a list or a text; the text of bash -c has its own variables."""
        if isinstance(value, str):
            given = [(text, self._line(path)) for text in _split(value)]
        else:
            listed = enumerate(value if isinstance(value, list) else ())
            given = [(str(text), self._line((*path, index))) for index, text in listed]
        in_shell = False
        for text, line in given:
            unknown = None if in_shell else _interpolated(text)
            yield Word(text.replace("$$", "$"), self.file, line, unknown)
            in_shell = text in ("-c", "-lc")

    def _gpus(self, service: dict[str, Any], place: Path) -> Setting | None:
        """deploy.resources.reservations.devices with gpu among their capabilities."""
        at: Path = ("deploy", "resources", "reservations", "devices")
        part: Any = service
        for name in at:
            part = part.get(name) if isinstance(part, dict) else None
        for index, device in enumerate(part if isinstance(part, list) else ()):
            count = device.get("count") if isinstance(device, dict) else None
            ids = device.get("device_ids") if isinstance(device, dict) else None
            number = len(ids) if isinstance(ids, list) else count
            if isinstance(number, int) and number > 0:
                path = (*place, *at, index)
                return Setting(".".join(map(str, path)), number, self.file, self._line(path))
        return None

    def _line(self, path: Path) -> int:
        return self.document.line_of(json_pointer(path))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _interpolated(text: str) -> str | None:
    """Why a word is not known where compose would put a variable into it."""
    found = _VARIABLE.search(text)
    return f"{found[1]} is put in by compose; write its value" if found else None
