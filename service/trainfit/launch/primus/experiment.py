"""The file of an experiment, and what its command line says over it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import scalar
from trainfit.specs.launch import LaunchFile

SCRIPTS = ("run_pretrain.sh", "run_local_pretrain.sh", "run_slurm_pretrain.sh")
"""Primus's own scripts, whose variable EXP names the experiment."""
CLI = "primus-cli"
COMMAND = ("train", "pretrain"), ("train", "posttrain")
"""How its command lines say that they train, whatever starts them."""
VARIABLE = "EXP"
NAMING = ("--config", "--exp")
PRESETS = ("framework", "config", "model")
"""What a trainer has to say."""
_REFERENCE = re.compile(r"\$\{([^:{}]+)(?::([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Experiment:
    """A trainer of an experiment: its backend, its presets, and what the file and over that the
    command line say over them. `others` are the keys beside it.
    """

    framework: Setting
    module: Setting
    model: Setting
    overrides: Mapping[str, Setting]
    over: Mapping[str, Setting]
    others: Sequence[Setting]


def is_experiment(file: LaunchFile) -> bool:
    """By a trainer among its modules that names a backend."""
    modules = (mapping_in(file, "modules") or {}).get("modules")
    trainers = modules.values() if isinstance(modules, dict) else ()
    return any(isinstance(each, dict) and "framework" in each for each in trainers)


def name_of(program: TrainingProgram) -> str:
    """The name of its script, without where that lies."""
    return (program.name or "").rpartition("/")[2]


def is_program(program: TrainingProgram) -> bool:
    """By a script of Primus, or the command of its program."""
    said = tuple(word.text for word in words_of(program)[:2])
    return name_of(program) in SCRIPTS or said in COMMAND


def words_of(program: TrainingProgram) -> Sequence[Word]:
    """The words of its command: those of primus-cli itself stand before two dashes."""
    said = [word.text for word in program.arguments]
    return program.arguments[said.index("--") + 1 :] if "--" in said else program.arguments


def experiment_of(program: TrainingProgram) -> Experiment:
    """The experiment of a program. Raises LaunchError where none was sent, or it has no trainer."""
    file = _file(program)
    settings = settings_of(document_of(file, ".yaml"), file.path)
    settings = {key: _resolved(each, program.environment) for key, each in settings.items()}
    names = dict.fromkeys(key.split(".")[1] for key in settings if key.startswith("modules."))
    trainers = [name for name in names if "trainer" in name]
    if len(trainers) != 1:
        raise LaunchError(Complaint(f"{file.path}: names no trainer, or several", file.path, 1))
    section = f"modules.{trainers[0]}."
    missing = [key for key in PRESETS if section + key not in settings]
    if missing:
        said = f"{section}{missing[0]} is not said"
        raise LaunchError(Complaint(f"{file.path}: {said}", file.path, 1))
    overrides = {
        name: replace(each, key=name)
        for key, each in settings.items()
        if (name := key.removeprefix(f"{section}overrides.")) != key
    }
    framework, module, model = (settings.pop(section + key) for key in PRESETS)
    over = {each.key: each for each in _said_over(program)}
    others = [each for key, each in settings.items() if not key.startswith(f"{section}overrides.")]
    return Experiment(framework, module, model, overrides, over, others)


def _file(program: TrainingProgram) -> LaunchFile:
    """The file that a command or its environment names; without a command, the one there is."""
    named = _named(program)
    if named is None:
        found = [each for each in program.files.values() if is_experiment(each)]
        if len(found) == 1:
            return found[0]
        raise LaunchError(Complaint("no file of an experiment of Primus was sent, or several"))
    file = program.file(str(named.value)) if named.unknown is None else None
    if file is None:
        raise LaunchError(Complaint.at(named, f"the file {named.value} was not sent; send it"))
    return file


def _named(program: TrainingProgram) -> Setting | None:
    words = list(words_of(program))
    for word, after in zip_longest(words, words[1:]):
        name, equals, inline = word.text.partition("=")
        if name in NAMING and equals:
            return Setting(name, inline, word.file, word.line, word.unknown)
        if name in NAMING and after is not None:
            return Setting.of(name, after)
    return program.environment.get(VARIABLE) if program.name is not None else None


def _said_over(program: TrainingProgram) -> Iterator[Setting]:
    """`key=value`, `--key=value`, `--key value` and `--key` after the command (arg_utils.py)."""
    words = list(words_of(program))
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        name, equals, inline = word.text.partition("=")
        key = name.lstrip("-")
        follows = words[position] if position < len(words) else None
        value = Word(inline, word.file, word.line, word.unknown) if equals else None
        if value is None and name.startswith("--") and follows and not _begins(follows):
            value, position = follows, position + 1
        if name in NAMING or not (equals or name.startswith("--")) or not key:
            continue
        if value is None:
            yield Setting(key, True, word.file, word.line, word.unknown)
        else:
            said = None if value.text == "None" else scalar(value.text)
            yield replace(Setting.of(key, value), value=said)


def _begins(word: Word) -> bool:
    return word.text.startswith("--") or "=" in word.text


def _resolved(setting: Setting, environment: Mapping[str, Setting]) -> Setting:
    """A value with variables of the environment, or their defaults, in it (yaml_loader.py)."""
    text = setting.value
    if not isinstance(text, str) or "${" not in text:
        return setting
    unknown: list[str] = []

    def said(found: re.Match[str]) -> str:
        given = environment.get(found[1])
        if given is not None and given.unknown is None:
            return str(given.value)
        if given is None and found[2] is not None:
            return found[2]
        unknown.append(f"nothing says what {found[1]} is; give it in env")
        return found[0]

    value: Any = scalar(_REFERENCE.sub(said, text))
    if isinstance(value, str) and value.lower() in ("true", "false"):
        value = value.lower() == "true"
    return replace(setting, value=value, unknown=unknown[0] if unknown else None)
