"""The program that trains, once everything that wraps it is taken off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.settings import Setting
from trainfit.launch.shell.piece import Piece
from trainfit.launch.shell.started import Command
from trainfit.specs.launch import LaunchFile

_PYTHON = re.compile(r".*\.py|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(?<!\.sh)")
_BESIDE = re.compile(
    r"(?:[^_.-]+[_.-])*"
    r"(?:infer|inference|eval|evaluate|evaluation|predict|generate|generation|serve|server)"
    r"(?:[_.-][^_.-]+)*"
)
_TRAINS = re.compile("train|tun|sft|dpo|ppo|grpo|rlhf|reward|distill")

Word = Piece
"""One word of a command line after expansion."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a scheduler gives a program: nodes, GPUs of each, and the model of a GPU.

    `tasks` are settings whose product is how often a program is started by what is `started` on it,
    srun or mpirun.
    """

    nodes: Setting | None = None
    gpus_per_node: Setting | None = None
    gpu: Setting | None = None
    tasks: tuple[Setting, ...] = ()
    started: bool = False


@dataclass(frozen=True, slots=True)
class TrainingProgram:
    """A training program and what it is given.

    `name` is its script or module: pretrain_gpt.py, torchtitan.train; None where only its files
    were sent. `launcher` are the settings of what starts it on many GPUs, by that one's own names.
    `num_gpus` are settings whose product is the number of GPUs. The other settings of what wraps
    the program are `irrelevant` or, with why, `unsupported`. `doubt` is that of its command.
    `files` are by the paths under which they are named; what a script wrote stands in it, and
    points there. `not_known` says of other paths why what is written there is not known. `stdin` is
    what its command may read, where that is known.
    """

    name: str | None = None
    arguments: tuple[Word, ...] = ()
    environment: Mapping[str, Setting] = field(default_factory=dict)
    files: Mapping[str, LaunchFile] = field(default_factory=dict)
    not_known: Mapping[str, str] = field(default_factory=dict)
    launcher: str | None = None
    launcher_settings: Mapping[str, Setting] = field(default_factory=dict)
    num_gpus: tuple[Setting, ...] = ()
    irrelevant: tuple[Setting, ...] = ()
    unsupported: tuple[tuple[Setting, str], ...] = ()
    doubt: str | None = None
    allocation: Allocation = Allocation()
    stdin: Word | None = None
    named: Mapping[str, Setting] = field(default_factory=dict)
    """Arguments that a command may give besides: each names a file that nothing else names."""

    def file(self, path: str) -> LaunchFile | None:
        """The file under this path, or the only one under its last name.

        Raises LaunchError for one that a script writes in a way that is not known.
        """
        if path in self.files:
            return self.files[path]
        if path in self.not_known:
            raise LaunchError(Complaint(self.not_known[path]))
        name = path.rpartition("/")[2]
        named = [file for each, file in self.files.items() if each.rpartition("/")[2] == name]
        return named[0] if len(named) == 1 else None

    def after(self, command: Command, environment: Mapping[str, Setting]) -> TrainingProgram:
        """What this program is for a command that a script starts in an environment."""
        files, not_known = dict(self.files), dict(self.not_known)
        for path, content in command.files.items():
            files.pop(path, None)
            not_known.pop(path, None)
            if content.unknown is not None:
                not_known[path] = content.unknown
            else:
                above = "\n" * ((content.line or 1) - 1)
                files[path] = LaunchFile.model_construct(
                    path=content.file, content=above + content.text
                )
        return replace(
            self,
            environment=environment,
            doubt=self.doubt or command.doubt,
            files=files,
            not_known=not_known,
            stdin=command.stdin,
        )

    @property
    def is_python(self) -> bool:
        """Whether its name is that of a script or of a module of Python."""
        return _PYTHON.fullmatch(self.name or "") is not None

    @property
    def is_beside(self) -> bool:
        """Whether its name says that it asks or serves a model, and nothing of training one:
        vllm_infer.py, vllm.entrypoints.openai.api_server.
        """
        name = self.name or ""
        named = self.is_python and _BESIDE.fullmatch(name.removesuffix(".py")) is not None
        return named and _TRAINS.search(name) is None

    def words(self) -> Iterator[str]:
        """The name and the arguments, as text."""
        if self.name is not None:
            yield self.name
        yield from (word.text for word in self.arguments)
