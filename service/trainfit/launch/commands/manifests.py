"""Objects of Kubernetes that run a training program in pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from trainfit.documents.document import Document
from trainfit.documents.json_pointer import json_pointer
from trainfit.kubernetes.workloads import KINDS, Container, Kind, Path, Pods
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Allocation, TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.specs.launch import LaunchFile

_REFERENCE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_IN_THE_CLUSTER = "its value is in the cluster; give it in env"


def is_manifest(value: Any) -> bool:
    """Whether a value is an object of Kubernetes."""
    return isinstance(value, dict) and {"apiVersion", "kind"} <= value.keys()


def substituted(file: LaunchFile, environment: Mapping[str, str]) -> LaunchFile:
    """A template of a manifest with the variables that are given put in, as envsubst does. What a
    container is given variables of its own stays.
    """
    text = _VARIABLE.sub(
        lambda found: environment.get(found[1] or found[2], found[0]), file.content
    )
    return file if text == file.content else file.model_copy(update={"content": text})


def files_of(document: Document, path: str) -> Iterator[LaunchFile]:
    """The files that a ConfigMap holds, below the path of its own."""
    if document.value["kind"] == "ConfigMap":
        data = document.value.get("data")
        for name, content in (data if isinstance(data, dict) else {}).items():
            if isinstance(content, str):
                yield LaunchFile(path=f"{path[-256:]}/{name[-200:]}", content=content)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file that was sent."""

    document: Document
    file: str

    def programs(self, bare: TrainingProgram) -> Iterator[tuple[Sequence[Word], TrainingProgram]]:
        """The commands of its pods with what each is given; pods with GPUs, if any ask for one.

        Raises LaunchError where the object does not read like its kind.
        """
        kind = self._kind()
        if kind is None:
            return
        groups = self._pods(kind)
        groups = [each for each in groups if each.gpus] or groups
        program = replace(bare, allocation=self._allocation(groups))
        nodes, gpus = program.allocation.nodes, program.allocation.gpus_per_node
        if nodes is not None and gpus is not None and kind.starts_ranks:
            program = replace(program, num_gpus=(nodes, gpus))
        irrelevant = tuple(self._others(kind, groups))
        program = replace(program, irrelevant=(*program.irrelevant, *irrelevant))
        said: set[tuple[str, ...]] = set()
        for group in groups:
            for place, container in group.containers.items():
                command = (*container.command, *container.args)
                if command and command not in said:
                    said.add(command)
                    yield self._command(kind, place, container, program)

    def _kind(self) -> Kind | None:
        value = self.document.value
        group = str(value["apiVersion"]).partition("/")[0]
        kind = KINDS.get((group, str(value["kind"])))
        try:
            return None if kind is None else kind.model_validate(value)
        except ValidationError as error:
            raise LaunchError(*map(self._complaint, error.errors()[:10])) from None
        except ValueError as error:
            raise LaunchError(Complaint(f"{self.file}: {error}", self.file)) from None

    def _pods(self, kind: Kind) -> list[Pods]:
        """Its pods. Raises LaunchError where they ask for GPUs that are no whole number."""
        try:
            return list(kind.pods())
        except ValueError as error:
            message = f"{self.file}: resources: GPUs must be a whole number: {error}"
            raise LaunchError(Complaint(message, self.file)) from None

    def _complaint(self, error: Mapping[str, Any]) -> Complaint:
        line = self._line(error["loc"])
        place = ".".join(map(str, error["loc"]))
        open_ = _VARIABLE.fullmatch(str(error["input"]))
        if open_ is not None:
            why = f"{open_[0]} is not known; give it in env"
        elif error["type"].startswith("int_"):
            why = f"must be a whole number, not {error['input']!r}"
        else:
            why = error["msg"]
        return Complaint(f"{self.file}:{line}: {place}: {why}", self.file, line)

    def _line(self, path: Path) -> int:
        return self.document.line_of(json_pointer(path))

    def _setting(self, path: Path, value: Any, unknown: str | None = None) -> Setting:
        key = ".".join(map(str, path))
        return Setting(key, value, self.file, self._line(path), unknown)

    def _allocation(self, groups: Sequence[Pods]) -> Allocation:
        """Nodes are pods; their GPUs, where all have as many."""
        numbers = {each.gpus for each in groups}
        gpus, nodes = None, None
        if len(numbers) == 1 and groups[0].gpus:
            gpus = self._setting(groups[0].asked_at, groups[0].gpus)
        counted = [each.count for each in groups]
        if groups and all(each is not None for each in counted):
            nodes = self._setting(groups[0].counted_at, sum(each or 0 for each in counted))
        gpu = None
        if groups and len({each.product for each in groups}) == 1 and groups[0].product is not None:
            gpu = self._setting(groups[0].product_at, groups[0].product)
        return Allocation(nodes, gpus, gpu)

    def _others(self, kind: Kind, groups: Sequence[Pods]) -> Iterator[Setting]:
        """What else the object says; none of it changes what a rank keeps in memory."""
        read = [path for each in groups for path in (each.counted_at, each.asked_at)]
        read += (path for _, path in kind.variables().values())
        for part in ("command", "args", "env"):
            read += ((*place, part) for each in groups for place in each.containers)
        texts = [".".join(map(str, path)) for path in read]
        for key, setting in settings_of(self.document, self.file).items():
            if not any(_is_within(key, text) or _is_within(text, key) for text in texts):
                yield setting

    def _command(
        self, kind: Kind, place: Path, container: Container, program: TrainingProgram
    ) -> tuple[Sequence[Word], TrainingProgram]:
        environment = {
            name: self._variable(name, value, path)
            for name, (value, path) in kind.variables().items()
        }
        for index, each in enumerate(container.env):
            path = (*place, "env", index)
            unknown = None if each.value_from is None else _IN_THE_CLUSTER
            environment[each.name] = self._variable(each.name, each.value or "", path, unknown)
        environment |= program.environment
        words = [
            self._word(text, (*place, part, index), environment)
            for part, texts in (("command", container.command), ("args", container.args))
            for index, text in enumerate(texts)
        ]
        return words, replace(program, environment=environment)

    def _variable(self, name: str, value: str, path: Path, unknown: str | None = None) -> Setting:
        return Setting(name, value, self.file, self._line(path), unknown)

    def _word(self, text: str, path: Path, environment: Mapping[str, Setting]) -> Word:
        """A word with $(NAME) replaced, as the kubelet does."""
        unknown: list[str] = []

        def value(found: re.Match[str]) -> str:
            setting = environment.get(found[1])
            if setting is None:
                return found[0]
            if setting.unknown is not None:
                unknown.append(setting.unknown)
                return f"${{{found[1]}}}"
            return str(setting.value)

        replaced = _REFERENCE.sub(value, text)
        return Word(replaced, self.file, self._line(path), unknown[0] if unknown else None)


def _is_within(key: str, other: str) -> bool:
    return f"{key}.".startswith(f"{other}.")
