"""Words that set the keys of a configuration, as OmegaConf and Hydra read them: model.path=gpt2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trainfit.documents.bounds import MAX_NUMBER_LENGTH
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.program import Word
from trainfit.launch.settings import Setting, leaves_of
from trainfit.launch.values import scalar

ASSIGNMENT = re.compile(r"(?P<sign>\+{0,2})(?P<key>[\w@/-]+(\.[\w@/-]+)*)=(?P<value>.*)", re.DOTALL)
REMOVAL = re.compile(r"~(?P<key>\w+(\.\w+)*)(=.*)?", re.DOTALL)
REFERENCE = re.compile(r"\$\{(?P<key>[\w.]+)\}")
MAX_REFERENCES = 16


def assignments(words: Sequence[Word], means: Callable[[str], Any] = scalar) -> Iterator[Setting]:
    """`key=value`, with + or ++ before it where it adds a key; `~key` takes one away: its value is
    None. A mapping sets each key in it. `means` is what the text of a value does. Raises
    LaunchError for anything else.
    """
    for word in words:
        if removed := REMOVAL.fullmatch(word.text):
            yield Setting(removed["key"], None, word.file, word.line, word.unknown)
        elif found := ASSIGNMENT.fullmatch(word.text):
            value = means(found["value"]) if word.unknown is None else found["value"]
            setting = Setting(found["key"], value, word.file, word.line, word.unknown)
            yield from leaves_of(setting)
        else:
            line = f"{word.file}{'' if word.line is None else f':{word.line}'}"
            message = f"{line}: {word.text[:80]!r} is no key=value"
            raise LaunchError(Complaint(message, word.file, word.line))


HYDRA_WORDS = {"true": True, "false": False, "null": None}
HYDRA_WHOLE = re.compile(r"[+-]?(0|[1-9](_?\d)*)")
HYDRA_FLOAT = re.compile(r"[+-]?(\d(_?\d)*\.\d*|\.\d+|\d(_?\d)*(?=[eE]))([eE][+-]?\d+)?")


def hydra_value(text: str) -> Any:
    """What a value means in Hydra's grammar, whose words and numbers are fewer than YAML's: yes and
    0x10 are text. Source: hydra/grammar/OverrideLexer.g4.
    """
    if text.lower() in HYDRA_WORDS:
        return HYDRA_WORDS[text.lower()]
    if len(text) <= MAX_NUMBER_LENGTH and HYDRA_WHOLE.fullmatch(text):
        return int(text)
    if len(text) <= MAX_NUMBER_LENGTH and HYDRA_FLOAT.fullmatch(text):
        return float(text)
    return scalar(text) if text.startswith(("[", "{", "'", '"')) else text


def added_key(word: Word) -> str | None:
    """The key that a word adds to a configuration, which need not have it."""
    found = ASSIGNMENT.fullmatch(word.text)
    return found["key"] if found is not None and found["sign"] else None


def values_of(settings: Mapping[str, Setting]) -> dict[str, object]:
    """What settings mean where one says `${other.key}`: the value of the other."""
    return {key: _followed(setting.value, settings) for key, setting in settings.items()}


def _followed(value: object, settings: Mapping[str, Setting]) -> object:
    for _ in range(MAX_REFERENCES):
        found = REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None or found["key"] not in settings:
            break
        value = settings[found["key"]].value
    return value
