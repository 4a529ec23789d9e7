"""Megatron-LM's `--yaml-cfg`: its arguments in a file, those of the model and its layout in two
sections.

Source: megatron/training/yaml_arguments.py. The file takes the place of the command line, of which
Megatron-LM then reads nothing else.
"""

from __future__ import annotations

import re

from trainfit.launch.documents import document_of
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.command_line import read_words
from trainfit.launch.megatron.configs import Field, reading_of
from trainfit.launch.megatron.programs import parser_of, read_machine, refuse_other_models
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import settings_of
from trainfit.specs.launch import LaunchFile

OPTION = "--yaml-cfg"
SECTIONS = ("language_model", "model_parallel")
_SECTION = {name: re.compile(rf"^{name}:", re.MULTILINE) for name in SECTIONS}


def recognises(program: TrainingProgram) -> bool:
    """By the option that names the file; without a program, by the file's sections."""
    if any(word.text.partition("=")[0] == OPTION for word in program.arguments):
        return True
    return program.name is None and _files(program) != []


def _files(program: TrainingProgram) -> list[LaunchFile]:
    """Files that have both sections."""
    return [
        file
        for file in program.files.values()
        if all(section.search(file.content) for section in _SECTION.values())
    ]


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put such a file into a draft. Raises LaunchError."""
    refuse_other_models(program)
    parser = parser_of(version)
    arguments = read_words(program.arguments, parser, draft)
    named = arguments.settings.pop("yaml_cfg", None)
    for setting in arguments.settings.values():
        draft.ignore(setting)
    if named is not None:
        draft.recognise(named)
    file = _file(program, None if named is None else str(named.value))
    document = document_of(file, ".yaml")
    settings = settings_of(document, file.path)
    if not settings:
        raise LaunchError(Complaint(f"{file.path}: holds no arguments", file.path, 1))
    leaves = (
        Field(name.rpartition(".")[2], setting, setting.value) for name, setting in settings.items()
    )
    read_arguments(reading_of(leaves, draft), parser.defaults())
    read_machine(program, draft)


def _file(program: TrainingProgram, path: str | None) -> LaunchFile:
    if path is not None:
        if (file := program.file(path)) is None:
            raise LaunchError(Complaint(f"{OPTION} {path}: this file was not sent"))
        return file
    files = _files(program) or list(program.files.values())
    if len(files) != 1:
        raise LaunchError(Complaint(f"name one file of arguments with {OPTION}"))
    return files[0]
