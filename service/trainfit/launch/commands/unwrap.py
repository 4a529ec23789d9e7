"""From what was sent to the programs that it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from trainfit.documents.document import Document, FileError, parse_documents
from trainfit.launch.commands import counts, launchers, slurm
from trainfit.launch.commands.compose import Compose, is_compose
from trainfit.launch.commands.functional_tests import FunctionalTest, is_functional_test
from trainfit.launch.commands.interfaces import SLURM
from trainfit.launch.commands.manifests import Manifest, files_of, is_manifest, substituted
from trainfit.launch.commands.mason import SCRIPT as MASON
from trainfit.launch.commands.mason import mason
from trainfit.launch.commands.mosaic import MosaicRun, is_mosaic_run
from trainfit.launch.commands.tasks import Task, is_task
from trainfit.launch.commands.wrappers import WRAPPERS
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.scripts import SUFFIXES, is_script
from trainfit.launch.settings import Setting
from trainfit.launch.shell.choices import Choice, Choices, Decisions
from trainfit.launch.shell.errors import ShellError
from trainfit.launch.shell.following import Followings, OutcomeOfScript
from trainfit.launch.shell.script import ShellScript
from trainfit.launch.shell.source import Source, lines_of
from trainfit.launch.shell.state import Budget, State, Variable, Variables
from trainfit.launch.shell.text import Text
from trainfit.specs.launch import Launch, LaunchFile

MAX_WRAPPED = 20
"""Programs that start each other."""

_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_MARKS = re.compile(r"\bapiVersion\b|\bservices\b|\bMODEL_ARGS\b|^(run|commands?):", re.MULTILINE)
"""What manifests, compose files, functional tests and tasks have in them, and few others."""
_DOCUMENTS = (".yaml", ".yml", ".json")
_PYTHON = re.compile(r"python[\d.]*")

_LAUNCHERS: Mapping[str, Callable[[Sequence[Word], TrainingProgram], launchers.Step]] = {
    "composer": launchers.composer,
    "deepspeed": launchers.deepspeed,
    "mpiexec": launchers.mpirun,
    "mpirun": launchers.mpirun,
    "srun": launchers.srun,
    "torchrun": launchers.torchrun,
}
LAUNCHERS = (*_LAUNCHERS, "accelerate", "axolotl", "llamafactory-cli", "swift", "trl", "tune")
"""Commands that start what trains."""
_LAUNCHING_MODULES: Mapping[str, str] = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.elastic": "torchrun",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}


class Unwrapped(NamedTuple):
    """The programs, and why there may be none that trains: where a script ends or calls another."""

    programs: Sequence[TrainingProgram]
    notes: Sequence[Complaint] = ()
    passed: Sequence[Word] = ()
    """Guards that end a script and were passed."""
    choices: Sequence[Choice] = ()
    """Statements of which nothing that was sent says which way they go."""


def programs_of(
    launch: Launch,
    *,
    past_guards: bool = False,
    decided: Decisions | None = None,
    followings: Followings | None = None,
) -> Unwrapped:
    """Every program that the launch starts; where it is to start none, its files alone. What a
    script would start if what it checks were as it wants is found `past_guards`; `decided` are
    ways that its statements go, and `followings` what came of the scripts of this launch before.

    Raises LaunchError where a script asks for more than is followed.
    """
    followings = Followings() if followings is None else followings
    try:
        return _Unwrapping(launch, past_guards, decided or {}, followings).unwrapped()
    except ShellError as error:
        raise LaunchError(Complaint(error.message, error.file, error.line)) from None


class _Unwrapping:
    """Takes off one launch what wraps its programs."""

    def __init__(
        self, launch: Launch, past_guards: bool, decided: Decisions, followings: Followings
    ) -> None:
        self._launch = launch
        self._past_guards = past_guards
        self._followings = followings
        self._choices = Choices(decided)
        self._passed: dict[Word, None] = {}
        environment = {name: Setting(name, text, "env", None) for name, text in launch.env.items()}
        files = {file.path: file for file in launch.files}
        self._bare = TrainingProgram(None, (), environment, files)
        self._budget = Budget()
        self._notes: list[Complaint] = []
        self._called: set[str] = set()

    def unwrapped(self) -> Unwrapped:
        programs = list(self._of_argv()) or list(self._of_files())
        if not any(is_script(file.path, file.content) for file in self._launch.files):
            programs = programs or [self._bare]
        return Unwrapped(programs, self._notes, tuple(self._passed), self._choices.open())

    def _of_argv(self) -> Iterator[TrainingProgram]:
        argv = self._launch.argv
        if argv is None or self._script_of_arguments() is not None:
            return
        if isinstance(argv, str):
            yield from self._of_source(Source.of_script(argv, "argv", None), self._bare, None)
        else:
            yield from self._of_words([Word(text, "argv", None) for text in argv], self._bare, 0)

    def _script_of_arguments(self) -> LaunchFile | None:
        """The script whose arguments `argv` holds: the only one, where `argv` starts nothing."""
        scripts = [file for file in self._launch.files if is_script(file.path, file.content)]
        first = self._arguments()[:1]
        if self._launch.argv is None or len(scripts) != 1:
            return None
        return None if first and self._starts_something(first[0].text) else scripts[0]

    def _starts_something(self, word: str) -> bool:
        name = word.rpartition("/")[2]
        return (
            self._bare.file(word) is not None
            or name.endswith(".py")
            or name in (*_LAUNCHERS, *WRAPPERS, *_SHELLS, "accelerate", "sbatch", "tune", ".")
            or _PYTHON.fullmatch(name) is not None
            or "=" in word
        )

    def _of_files(self) -> Iterator[TrainingProgram]:
        """What manifests start, and the scripts that nothing else calls."""
        yield from list(self._of_manifests())
        asked = self._script_of_arguments()
        found: dict[str, tuple[list[TrainingProgram], Choices]] = {}
        lost: dict[str, ShellError] = {}
        for file in self._launch.files:
            if file.path not in self._called and is_script(file.path, file.content):
                arguments = self._arguments() if asked is file else None
                outer, self._called = self._called, set()
                self._choices = Choices(self._choices.decided)
                try:
                    programs = list(self._of_script(file, arguments, self._bare, 0))
                    found[file.path] = programs, self._choices
                except ShellError as error:
                    lost[file.path] = error
                self._called = outer | (self._called - {file.path})
        self._choices = Choices(self._choices.decided)
        for path, why in lost.items():
            if path not in self._called:
                raise why
        for path, (programs, choices) in found.items():
            if path not in self._called:
                self._choices.add(choices)
                yield from programs

    def _arguments(self) -> Sequence[Word]:
        """`argv` as the arguments of the script that was sent."""
        argv = self._launch.argv
        texts = argv.split() if isinstance(argv, str) else argv or ()
        return [Word(text, "argv", None) for text in texts]

    def _of_manifests(self) -> Iterator[TrainingProgram]:
        """What objects of Kubernetes and services of compose files start."""
        marked = [
            substituted(file, self._launch.env)
            for file in self._launch.files
            if file.path.endswith(_DOCUMENTS) and _MARKS.search(file.content)
        ]
        read = [(file, document) for file in marked for document in _documents(file)]
        manifests = [each for each in read if is_manifest(each[1].value)]
        held = [each for file, document in manifests for each in files_of(document, file.path)]
        files = {each.path: each for each in (*held, *self._launch.files)}
        self._bare = replace(self._bare, files=files)
        for file, document in read:
            if is_functional_test(document.value):
                yield FunctionalTest(document, file.path).program(self._bare)
            elif is_compose(document.value):
                yield from self._of_document(Compose(document, file.path))
            elif is_task(document.value):
                yield from self._of_document(Task(document, file.path))
            elif is_mosaic_run(document.value):
                run = MosaicRun(document, file.path)
                self._bare = run.with_parameters(self._bare, file.content)
                yield from self._of_document(run)
            elif (file, document) in manifests:
                yield from self._of_document(Manifest(document, file.path))

    def _of_document(
        self, document: Compose | Manifest | MosaicRun | Task
    ) -> Iterator[TrainingProgram]:
        found = list(document.programs(self._bare))
        kind = document.document.value.get("kind")
        if not found and isinstance(document, Manifest) and kind != "ConfigMap":
            message = f"has a {kind} with no command that is read; give the command in argv"
            self._note(Word("", document.file, document.document.line_of("/kind")), message)
        for command, program in found:
            if isinstance(command, Source):
                yield from self._of_source(command, program, None)
            else:
                yield from self._of_words(command, program, 0)

    def _of_script(
        self,
        file: LaunchFile,
        arguments: Sequence[Word] | None,
        program: TrainingProgram,
        depth: int,
        asked: Sequence[Word] = (),
    ) -> Iterator[TrainingProgram]:
        """What a file with a script starts."""
        self._called.add(file.path)
        text = Text(tuple(lines_of(Word(file.content, file.path, 1))))
        yield from self._of_job(text, arguments, program, depth, asked)

    def _of_job(
        self,
        script: Text,
        arguments: Sequence[Word] | None,
        program: TrainingProgram,
        depth: int,
        asked: Sequence[Word],
    ) -> Iterator[TrainingProgram]:
        """What a script starts. Its #SBATCH lines say what it is given, and over them `asked`."""
        parsed = SLURM.parse([*slurm.directives(script), *asked])
        if parsed.options:
            given = slurm.allocation(parsed, program.allocation)
            environment = {**program.environment, **slurm.variables(given)}
            program = launchers.noted(parsed, program, "sbatch")
            program = replace(program, allocation=given, environment=environment)
        yield from self._of_source(Source.of(script), program, arguments, depth)

    def _of_source(
        self,
        source: Source,
        program: TrainingProgram,
        arguments: Sequence[Word] | None,
        depth: int = 0,
    ) -> Iterator[TrainingProgram]:
        variables = {
            name: Variable(_text(setting), exported=True)
            for name, setting in program.environment.items()
        }
        parameters = None if arguments is None else tuple(map(Text.of_word, arguments))
        script = self._followed(source, variables, parameters, program)
        self._passed |= dict.fromkeys(script.passed)
        for at, message in script.ends_early:
            self._note(at, message)
        earlier: Mapping[str, Word] | None = None
        environment: Mapping[str, Setting] = {}
        opening = next(iter(script.commands), None)
        for command in script.commands:
            if command.captured:
                continue
            first = command.words[0] if command.words else None
            if first is not None and first.text.startswith("--") and command is not opening:
                raise LaunchError(_cut_off(first))
            given = command.environment
            if given is not earlier:
                earlier = given
                environment = {name: Setting.of(name, given[name]) for name in given}
            yield from self._of_words(command.words, program.after(command, environment), depth + 1)

    def _followed(
        self,
        source: Source,
        variables: Mapping[str, Variable],
        parameters: tuple[Text, ...] | None,
        program: TrainingProgram,
    ) -> OutcomeOfScript:
        """What comes of a script with these variables and parameters, around a program."""
        sent = frozenset(file.path for file in self._launch.files)
        gpus = counts.gpus_of_node(program, self._launch.overrides)

        def follow(choices: Choices) -> ShellScript:
            def file(path: str) -> LaunchFile | None:
                found = self._bare.file(path)
                if found is not None:
                    self._called.add(found.path)
                    script.read.append(found.path)
                return found

            state = State(Variables(variables), parameters, sent=sent)
            prints = partial(counts.printed, gpus)
            texts = self._followings.texts
            script = ShellScript(state, self._budget, file, prints, choices, texts)
            script.passes_guards = self._past_guards
            script.follow(source)
            return script

        files = tuple((path, file.content) for path, file in self._bare.files.items())
        followed = self._followings.followed(
            (source, tuple(variables.items()), parameters, gpus, files),
            self._budget,
            self._choices,
            follow,
            passes_guards=self._past_guards,
        )
        self._called |= {*followed.read}
        return followed

    def _of_words(
        self, words: Sequence[Word], program: TrainingProgram, depth: int
    ) -> Iterator[TrainingProgram]:
        """What a command starts, once everything that wraps it is taken off."""
        for _ in range(MAX_WRAPPED):
            if not words:
                return
            name = words[0].text.rpartition("/")[2]
            script = self._script(words)
            if depth < MAX_WRAPPED and (script is not None or name in _SHELLS):
                yield from self._of_shell(words, script, program, depth)
                return
            if depth < MAX_WRAPPED and name == "sbatch":
                yield from self._of_sbatch(words, program, depth)
                return
            self._call_named(words)
            step = _step(name, words, program)
            if step is None:
                yield _finished(words, program)
                return
            words, program = step
        raise LaunchError(Complaint(f"wraps its programs in more than {MAX_WRAPPED} others"))

    def _call_named(self, words: Sequence[Word]) -> None:
        """Scripts that mason.py is told to source before what it starts are called by it."""
        if any(word.text.rpartition("/")[2] == MASON for word in words[:3]):
            for word in words[3:]:
                file = self._bare.file(word.text) if word.text.endswith(SUFFIXES) else None
                self._called |= {file.path} if file is not None else set()

    def _script(self, words: Sequence[Word]) -> LaunchFile | None:
        """The script that a command names by itself: ./train.sh"""
        text = words[0].text
        if "/" not in text and not text.endswith(SUFFIXES):
            return None
        file = self._bare.file(text)
        return file if file is not None and is_script(file.path, file.content) else None

    def _of_shell(
        self, words: Sequence[Word], script: LaunchFile | None, program: TrainingProgram, depth: int
    ) -> Iterator[TrainingProgram]:
        """bash -c "text" arguments, bash script arguments, ./script arguments."""
        rest = list(words[1:])
        if script is None:
            while rest and rest[0].text.startswith(("-", "+")) and not _is_c(rest[0].text):
                rest = rest[2:] if rest[0].text in ("-o", "-O") else rest[1:]
            if len(rest) > 1 and _is_c(rest[0].text):
                text = Text.of_word(rest[1])
                yield from self._of_source(Source.of(text), program, rest[3:], depth)
                return
            if not rest:
                if program.stdin is not None:
                    yield from self._of_source(Source.of(_read(program)), program, (), depth)
                return
            script, words, rest = self._called_file(rest[0]), rest, rest[1:]
        if script is None:
            yield _finished(words, program)
        else:
            yield from self._of_script(script, rest, program, depth)

    def _of_sbatch(
        self, words: Sequence[Word], program: TrainingProgram, depth: int
    ) -> Iterator[TrainingProgram]:
        """sbatch options script arguments; options override those of the script, which is read from
        standard input where none is named.
        """
        parsed = SLURM.parse(words[1:])
        wrapped = parsed.get("wrap")
        if wrapped is not None:
            text = Text.of(str(wrapped.value), wrapped.file, wrapped.line, wrapped.unknown)
            yield from self._of_source(Source.of(text), program, (), depth)
        elif parsed.rest:
            script, *arguments = parsed.rest
            file = self._called_file(script)
            if file is None:
                yield _finished(parsed.rest, program)
            else:
                asked = words[1 : len(words) - len(parsed.rest)]
                yield from self._of_script(file, arguments, program, depth, asked)
        elif program.stdin is not None:
            yield from self._of_job(_read(program), (), program, depth, words[1:])

    def _called_file(self, word: Word) -> LaunchFile | None:
        """The script that a command runs; where it was not sent, that may be why nothing trains."""
        file = self._bare.file(word.text)
        if file is None:
            self._note(word, f"{word.text} is called here and was not sent")
        return file

    def _note(self, at: Word, message: str) -> None:
        where = at.file if at.line is None else f"{at.file}:{at.line}"
        complaint = Complaint(f"{where}: {message}", at.file, at.line)
        if complaint not in self._notes:
            self._notes.append(complaint)


def _cut_off(word: Word) -> Complaint:
    """An option where a command begins: the line above was its last, so the program misses it."""
    message = (
        f"{word.text} begins a line of its own, as a comment or a missing \\ above ends the "
        "command that it belongs to: bash does not pass it on"
    )
    where = word.file if word.line is None else f"{word.file}:{word.line}"
    return Complaint(f"{where}: {message}", word.file, word.line)


def _documents(file: LaunchFile) -> Sequence[Document]:
    """The documents of a file. One that cannot be read is left to what asks for its keys."""
    try:
        return parse_documents(PurePosixPath(file.path).suffix, file.content)
    except FileError:
        return ()


def _read(program: TrainingProgram) -> Text:
    """What a shell reads as its commands, which leaves nothing to them."""
    assert program.stdin is not None
    return Text.of_word(program.stdin)


def _text(setting: Setting) -> Text:
    if setting.pieces:
        return Text(setting.pieces)
    return Text.of(str(setting.value), setting.file, setting.line, setting.unknown)


def _is_c(text: str) -> bool:
    """Whether an option of a shell says that a command follows: -c, -lc, -xec."""
    return re.fullmatch(r"-[a-zA-Z]*c", text) is not None


def _step(name: str, words: Sequence[Word], program: TrainingProgram) -> launchers.Step | None:
    """A command without the first program of it; None where that starts no other."""
    if name in _LAUNCHERS:
        return _LAUNCHERS[name](words, program)
    if name == "accelerate" and len(words) > 1 and words[1].text == "launch":
        return launchers.accelerate(words, program)
    if name == "axolotl":
        return launchers.axolotl(words, program)
    if name in WRAPPERS:
        return WRAPPERS[name].unwrapped(words, program)
    if _PYTHON.fullmatch(name):
        return _launching_python(words, program)
    return None


def _launching_python(words: Sequence[Word], program: TrainingProgram) -> launchers.Step | None:
    """python of a launcher that is a script, or -m of one that is a module."""
    module, arguments = _of_python(words)
    if module is None:
        return None
    if module.text.rpartition("/")[2] == MASON:
        return mason([module, *arguments], program)
    launcher = _LAUNCHING_MODULES.get(module.text)
    if launcher is not None:
        return _LAUNCHERS[launcher]([module, *arguments], program)
    if module.text == "accelerate.commands.launch":
        return launchers.accelerate([module, module, *arguments], program)
    return None


def _of_python(words: Sequence[Word]) -> tuple[Word | None, Sequence[Word]]:
    """The script or module that python runs, and its arguments."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        text = words[at].text
        if text == "-m":
            at += 1
            break
        if text == "-c":
            return None, ()
        at += 2 if text in ("-W", "-X", "--check-hash-based-pycs") else 1
    return (words[at], words[at + 1 :]) if at < len(words) else (None, ())


def _finished(words: Sequence[Word], program: TrainingProgram) -> TrainingProgram:
    """The program that a command is, with its arguments."""
    name, arguments = words[0], words[1:]
    if _PYTHON.fullmatch(name.text.rpartition("/")[2]):
        script, arguments = _of_python(words)
        name = script or name
        if program.launcher is None and program.allocation.started:
            program = replace(program, num_gpus=program.allocation.tasks)
    gpu = program.allocation.gpu
    settings = program.num_gpus if gpu is None else (*program.num_gpus, gpu)
    deciding = {(each.file, each.line, each.key) for each in settings}
    irrelevant = tuple(
        each for each in program.irrelevant if (each.file, each.line, each.key) not in deciding
    )
    if name.text.startswith("-") or "=" in name.text:
        return replace(program, arguments=tuple(words), irrelevant=irrelevant)
    return replace(
        program,
        name=name.text.rpartition("/")[2],
        arguments=tuple(arguments),
        irrelevant=irrelevant,
    )
