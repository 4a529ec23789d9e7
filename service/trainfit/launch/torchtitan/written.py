"""torchtitan's TOML file and command line -> the settings that are written there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trainfit.launch.documents import document_of
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import WHOLE
from trainfit.specs.launch import LaunchFile

CONFIG_FILE = "job.config_file"
LAUNCHERS = {"run_train.sh", "run_llama_train.sh"}
"""torchtitan's own scripts that start it: environment variables say which config and GPUs."""
VARIABLES = {"CONFIG_FILE": CONFIG_FILE, "MODULE": "module", "CONFIG": "config"}
"""What these scripts pass on as options."""
SUBCOMMAND = re.compile(r"activation[-_]checkpoint:([\w-]+)")
OPTION = re.compile(r"--\w+([.-]\w+)*")
CONSTANTS = {"None": None, "True": True, "true": True, "False": False, "false": False}


def is_started_by_script(program: TrainingProgram) -> bool:
    return program.name is not None and program.name.rpartition("/")[2] in LAUNCHERS


def command_line_settings(program: TrainingProgram) -> list[Setting]:
    """What options say, after what the variables of torchtitan's own scripts do."""
    found = []
    if is_started_by_script(program):
        for variable, key in VARIABLES.items():
            if (given := program.environment.get(variable)) is not None:
                found.append(Setting(key, given.value, given.file, given.line, given.unknown))
    return [*found, *_options(program.arguments)]


def config_file(program: TrainingProgram, settings: Sequence[Setting]) -> LaunchFile | None:
    """The TOML file that the command line names; where only files were sent, the one there is."""
    named = next((each for each in reversed(settings) if each.key == CONFIG_FILE), None)
    if named is None and program.name is None:
        files = [each for each in program.files.values() if each.path.endswith(".toml")]
        if len(files) > 1:
            paths = ", ".join(each.path for each in files)
            message = f"which of {paths} is meant? Give the command line with --job.config_file"
            raise LaunchError(Complaint(message))
        return files[0] if files else None
    if named is None:
        return None
    if str(named.value).endswith(".py"):
        raise LaunchError(Complaint.at(named, "Python is not run; give options over it, or TOML"))
    file = program.file(str(named.value))
    if file is None:
        raise LaunchError(Complaint.at(named, f"the file {named.value} was not sent; send it"))
    return file


def file_settings(file: LaunchFile) -> list[Setting]:
    """The keys of a TOML file; an empty table says nothing."""
    settings = settings_of(document_of(file, ".toml"), file.path).values()
    return [each for each in settings if each.value != {}]


def _options(words: Sequence[Word]) -> Iterator[Setting]:
    """`--section.key value`, `--section.key=value`, `--section.key`, `--section.no_key`, with - or
    _ in names; several values make a list.
    """
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if known := SUBCOMMAND.fullmatch(word.text):
            mode = known[1].replace("-", "_")
            yield Setting("activation_checkpoint", mode, word.file, word.line, word.unknown)
            continue
        name, equals, text = word.text.partition("=")
        if not OPTION.fullmatch(name):
            line = f"{word.file}{'' if word.line is None else f':{word.line}'}"
            message = f"{line}: {word.text[:80]!r} is neither an option of torchtitan nor a value"
            raise LaunchError(Complaint(message, word.file, word.line))
        values = [Word(text, word.file, word.line, word.unknown)] if equals else []
        while not equals and position < len(words) and not _begins(words[position]):
            values.append(words[position])
            position += 1
        yield _setting(name[2:].replace("-", "_"), word, values)


def _begins(word: Word) -> bool:
    return word.text.startswith("--") or SUBCOMMAND.fullmatch(word.text) is not None


def _setting(name: str, option: Word, values: Sequence[Word]) -> Setting:
    section, _, last = name.rpartition(".")
    unknown = next((each.unknown for each in (option, *values) if each.unknown), None)
    value: Any
    if values:
        read = [_value(each.text) for each in values]
        value = read[0] if len(read) == 1 else read
    else:
        value = not last.startswith("no_")
        name = f"{section}.{last.removeprefix('no_')}" if section else name
    return Setting(name, value, option.file, option.line, unknown)


def _value(text: str) -> Any:
    if WHOLE.fullmatch(text):
        return int(text)
    return CONSTANTS.get(text, text)
