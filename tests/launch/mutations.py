"""Keys of a launch taken out and renamed one by one: nothing goes unnoticed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tests.launch.launches import Read, read
from trainfit.launch.account import Recognised
from trainfit.launch.draft import Draft
from trainfit.launch.errors import LaunchError
from trainfit.specs.launch import Launch

RENAMED = "_renamed"


def keys_that_decide(before: Read) -> Iterator[Recognised]:
    """The keys that became fields of the job."""
    yield from (each for each in before.account.recognised if each.became)


def check_every_key(launch: Launch) -> int:
    """Drop and rename each key that decides memory. Without it a field changes, has a default or
    an override, or is demanded; under another name the key is unsupported, or what it said is
    demanded. Returns how many keys there were.
    """
    before = read(launch)
    keys = list(keys_that_decide(before))
    for each in keys:
        _check_dropped(launch, before, each)
        _check_renamed(launch, each)
    return len(keys)


def _check_dropped(launch: Launch, before: Read, key: Recognised) -> None:
    try:
        after = read(_without(launch, key))
    except LaunchError:
        return
    places = [(each.file, each.key) for each in after.account.recognised]
    places += [(each.file, each.key) for each in after.account.irrelevant]
    assert (key.file, key.key) not in places
    draft = Draft(overrides=launch.overrides)
    for became in key.became:
        pointer = became.pointer
        others = [
            each
            for each in after.account.recognised
            if any(field.pointer == pointer for field in each.became)
        ]
        changed = after.field(pointer) != before.field(pointer)
        told = others or pointer in after.defaulted or draft.overridden(pointer) is not None
        assert changed or told, (key.key, pointer)


def _check_renamed(launch: Launch, key: Recognised) -> None:
    try:
        after = read(_with_another_name(launch, key))
    except LaunchError:
        return
    name = key.key + RENAMED
    spelled = {name, f"--{name.lstrip('-').replace('-', '_')}"}
    assert spelled & after.unsupported, key.key


def _without(launch: Launch, key: Recognised) -> Launch:
    return _edited(launch, key, "", [])


def _with_another_name(launch: Launch, key: Recognised) -> Launch:
    last = key.key.rpartition(".")[2]
    return _edited(launch, key, last + RENAMED, None)


def _edited(launch: Launch, key: Recognised, name: str, words: list[str] | None) -> Launch:
    """The launch with the line of the key taken out, or with another name in it."""
    last = key.key.rpartition(".")[2]
    if key.line is None:
        assert isinstance(launch.argv, tuple)
        return launch.model_copy(update={"argv": _edited_words(launch.argv, key.key, name)})
    files = []
    for file in launch.files:
        lines = file.content.split("\n")
        if file.path == key.file:
            line = lines[key.line - 1]
            found = re.search(rf"(?<![\w.-]){re.escape(last)}(?![\w-])", line)
            assert found is not None, (line, last)
            renamed = line[: found.start()] + name + line[found.end() :]
            lines[key.line - 1 : key.line] = [renamed] if words is None else words
        files.append(file.model_copy(update={"content": "\n".join(lines)}))
    return launch.model_copy(update={"files": tuple(files)})


def _edited_words(words: Sequence[str], key: str, name: str) -> tuple[str, ...]:
    """The command line without an option and its values, or with another name in it."""
    key = key.lstrip("-").replace("-", "_")
    edited: list[str] = []
    inside = False
    for word in words:
        option = re.split(r"[=]", word.lstrip("-"), maxsplit=1)[0].replace("-", "_")
        if option == key:
            inside = not name
            if name:
                edited.append(word.replace(word.lstrip("-").split("=")[0], key + RENAMED, 1))
            continue
        inside = inside and not word.startswith("-")
        if not inside:
            edited.append(word)
    return tuple(edited)
