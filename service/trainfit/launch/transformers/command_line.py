"""A command line as transformers' HfArgumentParser (hf_argparser.py) and TRL's parser take it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from trainfit.documents.document import Document, FileError, parse_documents
from trainfit.launch.documents import document_of
from trainfit.launch.dotlist import ASSIGNMENT, assignments
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.missing import not_sent
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.specs.launch import LaunchFile

DOCUMENTS = (".json", ".yaml", ".yml")
CONFIG_FLAGS = ("config", "config_file")
"""Flags that name a file whose keys are arguments: TRL's, alignment-handbook's."""


SUBCOMMANDS = {
    "trl": ("sft", "dpo", "grpo", "kto", "reward", "rloo"),
    "llamafactory-cli": ("train",),
    "lmf": ("train",),
    "llamafactory": ("train",),
    "axolotl": ("train",),
    "swift": ("sft", "pt", "rlhf"),
    "megatron": ("sft", "pt", "rlhf"),
}
"""Commands of tools that train."""


class FlagWords(NamedTuple):
    """One flag with the words behind it."""

    name: str
    flag: Word
    values: tuple[Word, ...]


def arguments_of(
    program: TrainingProgram, draft: Draft, *, dotlist: bool = False
) -> dict[str, Setting]:
    """The arguments of a script by name, underscores in place of dashes: of the file that it is
    given, and over these of the command line. A value in JSON has dotted names like a file's.

    `dotlist` is the way of a program that takes key=value over a file, and flags without one only.
    """
    flags, positional = flags_of(program.arguments)
    named = [each.values[0] for each in flags if each.name in CONFIG_FLAGS and each.values]
    if positional and positional[0].text in SUBCOMMANDS.get(program.name or "", ()):
        positional = positional[1:]
    named += [each for each in positional if _is_document(each)]
    found = _of_files(program, named)
    for word in positional:
        if dotlist and named and ASSIGNMENT.fullmatch(word.text):
            setting = next(assignments([word]))
            _replace(found, setting.key, setting, draft)
        elif not _is_document(word):
            _leave_out(word, draft)
    for flag in flags:
        if dotlist and named:
            message = f"over {named[0].text} LLaMA-Factory takes {flag.name}=.. without dashes"
            draft.complain(_setting(flag), message)
        elif flag.name not in CONFIG_FLAGS:
            _replace(found, flag.name, _setting(flag), draft)
    return found


def _is_document(word: Word) -> bool:
    return word.text.endswith(DOCUMENTS) and "=" not in word.text


def _of_files(program: TrainingProgram, named: Sequence[Word]) -> dict[str, Setting]:
    """The arguments in the one file that is named. Raises LaunchError where several are."""
    files = [sent(program, Setting.of(each.text, each)) for each in named]
    if len(paths := dict.fromkeys(each.path for each in files)) > 1:
        last = named[-1]
        message = f"names more than one file of arguments: {', '.join(paths)}; one is read"
        raise LaunchError(Complaint(message, last.file, last.line))
    return settings_in(files[0]) if files else {}


def _leave_out(word: Word, draft: Draft) -> None:
    """Note a word that is neither a flag nor the value of one."""
    setting = Setting.of(word.text, word)
    if setting.unknown is not None:
        draft.recognise(setting)
    else:
        draft.leave_out(setting, "what the program makes of this word is not known")


def flags_of(words: Sequence[Word]) -> tuple[list[FlagWords], list[Word]]:
    """The flags, and the words before the first of them."""
    starts = [index for index, word in enumerate(words) if word.text.startswith("--")]
    flags = []
    for start, end in pairwise([*starts, len(words)]):
        name, equals, value = words[start].text[2:].partition("=")
        values = tuple(words[start + 1 : end])
        if equals:
            values = (replace(words[start], text=value), *values)
        flags.append(FlagWords(name.replace("-", "_"), words[start], values))
    return flags, list(words[: starts[0]] if starts else words)


def sent(program: TrainingProgram, setting: Setting) -> LaunchFile:
    """The file that a setting names. Raises LaunchError where it was not sent."""
    path = str(setting.value)
    file = program.file(path)
    if file is None:
        raise LaunchError(Complaint.at(setting, not_sent(path, setting.unknown)))
    return file


def named(program: TrainingProgram, setting: Setting) -> Setting:
    """A setting that names a file. Of one that was sent, only the last part of its path counts."""
    if setting.unknown is None or program.file(str(setting.value)) is None:
        return setting
    return replace(setting, unknown=None)


def settings_in(file: LaunchFile) -> dict[str, Setting]:
    """The keys of a file, which are one mapping. Raises LaunchError."""
    return settings_of(keys_of(file), file.path)


def keys_of(file: LaunchFile) -> Document:
    """The one mapping that a file of keys is. Raises LaunchError."""
    document = document_of(file, ".json" if file.path.endswith(".json") else ".yaml")
    if not isinstance(document.value, dict):
        raise LaunchError(Complaint(f"{file.path}: has to be one mapping of keys", file.path, 1))
    return document


def _setting(flag: FlagWords) -> Setting:
    """A flag without a value switches something on; several words are a list."""
    texts = [word.text for word in flag.values]
    value: Any = True if not texts else texts[0] if len(texts) == 1 else texts
    unknown = next((word.unknown for word in flag.values if word.unknown is not None), None)
    return Setting(flag.name, value, flag.flag.file, flag.flag.line, unknown)


def _replace(found: dict[str, Setting], name: str, setting: Setting, draft: Draft) -> None:
    """What the command line says counts in place of all that the file says below this name.

    A bare --no_x is the off of a switch x whose default is on.
    """
    for key in [key for key in found if key == name or key.startswith(f"{name}.")]:
        draft.ignore(found.pop(key))
    if setting.value is True and name.startswith("no_") and name not in ("no_cuda",):
        name, setting = name[3:], Setting(name, False, setting.file, setting.line)
    found |= dict(_inline(name, setting))


def _inline(name: str, setting: Setting) -> Iterator[tuple[str, Setting]]:
    """The leaves of a value that is an object in JSON."""
    text = setting.value
    if isinstance(text, str) and text.startswith("{"):
        try:
            document = parse_documents(".json", text)[0]
        except FileError:
            yield name, setting
            return
        for key, leaf in settings_of(document, setting.file).items():
            dotted = f"{name}.{key}"
            yield dotted, Setting(dotted, leaf.value, setting.file, setting.line, setting.unknown)
        if not document.value:
            yield name, Setting(name, json.loads("{}"), setting.file, setting.line)
    else:
        yield name, setting
