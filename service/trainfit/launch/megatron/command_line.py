"""Words of a command line -> arguments, as argparse takes them for Megatron-LM."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.megatron.known import OF_ENGINES, VALUE_IRRELEVANT
from trainfit.launch.megatron.layer_flags import layer_flags
from trainfit.launch.megatron.options import MegatronParser, Option
from trainfit.launch.program import Word
from trainfit.launch.settings import Setting

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""What begins with a dash and is a value, as argparse has it."""


_SCHEDULE = "--step-batch-size-schedule"
_STEP = re.compile(r"[\d.]+[KMBT]?:\d+")
"""A batch size from a number of tokens or samples on; several are one value with spaces in it."""


@dataclass(slots=True)
class Arguments:
    """Settings by their names in Megatron-LM's namespace, and the values that they set there."""

    settings: dict[str, Setting] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


def read_words(words: Sequence[Word], parser: MegatronParser, draft: Draft) -> Arguments:
    """The arguments of a command line. Options that the parser does not have, and words that
    belong to none, are unsupported; values that it would not take are complained of.
    """
    words = _rejoined(words)
    arguments = Arguments()
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.text.startswith("--"):
            _stray(word, draft)
            continue
        spelling, equals, inline = word.text.partition("=")
        option = replace(word, text=spelling)
        if equals:
            given = [replace(word, text=inline)]
        else:
            given = list(takewhile(_is_value, words[position:]))
        taken = _set(arguments, parser, option, given, draft)
        if not equals:
            position += taken
        elif not taken:
            draft.complain(_setting(option, given), "takes no value")
    return arguments


def _rejoined(words: Sequence[Word]) -> Sequence[Word]:
    """The words, with a schedule in one where a shell split it, as one that is written without
    quotes around the array that holds it.
    """
    joined: list[Word] = []
    for word in words:
        scheduled = len(joined) > 1 and joined[-2].text == _SCHEDULE
        if scheduled and word.unknown is None and _STEP.fullmatch(word.text):
            joined[-1] = replace(joined[-1], text=f"{joined[-1].text} {word.text}")
        else:
            joined.append(word)
    return joined


def _stray(word: Word, draft: Draft) -> None:
    """A word that belongs to no option; one that is not known may be any option."""
    setting = Setting(word.text, word.text, word.file, word.line, word.unknown)
    if word.unknown is None:
        draft.leave_out(setting, "belongs to no option before it")
    else:
        draft.recognise(setting)


def _set(
    arguments: Arguments, parser: MegatronParser, word: Word, given: list[Word], draft: Draft
) -> int:
    """Set the option of this word in the first shape that takes what is given; how much it took.

    An earlier word that set the same argument counts no longer.
    """
    problem = None
    for option in parser.shapes(word.text):
        taken = _taken(option, len(given))
        if taken is None:
            problem = problem or "takes a value"
        elif (wrong := _problem(option, given[:taken])) is not None:
            if option.dest in VALUE_IRRELEVANT:
                draft.ignore(_setting(word, given[:taken]))
                return taken
            problem = problem or wrong
        else:
            _put(arguments, option, word, given[:taken], draft)
            return taken
    if problem is None and word.text.startswith(OF_ENGINES):
        draft.ignore(_setting(word, given))
    elif problem is None:
        draft.leave_out(_setting(word, given), parser.why_not(word.text))
    else:
        draft.complain(_setting(word, given), problem)
    return len(given)


def _put(arguments: Arguments, option: Option, word: Word, given: list[Word], draft: Draft) -> None:
    if option.dest == "moe_layer_freq":
        given = [_as_written(each) for each in given]
    setting = _setting(word, given)
    if setting.unknown is None:
        value = _value(option, word.text, given)
        setting = replace(setting, value=True if option.takes == 0 else value)
        arguments.values[option.dest] = value
    if option.dest in arguments.settings:
        draft.ignore(arguments.settings[option.dest])
    arguments.settings[option.dest] = setting


def _as_written(word: Word) -> Word:
    """A list of layers that a shell may take for a pattern of file names, [0]*3+[1]*58. Where no
    file has such a name the shell leaves it, and the name of a file would be no list.
    """
    try:
        layer_flags(word.text)
    except ValueError:
        return word
    return replace(word, unknown=None)


def _setting(word: Word, given: list[Word]) -> Setting:
    """An option with the values that follow it, as they are written."""
    texts = [each.text for each in given]
    said: Any = True if not texts else texts[0] if len(texts) == 1 else texts
    unknown = next((each.unknown for each in given if each.unknown is not None), None)
    return Setting(word.text, said, word.file, word.line, unknown)


def _is_value(word: Word) -> bool:
    text = word.text
    return not text.startswith("-") or text == "-" or _NUMBER.fullmatch(text) is not None


def _taken(option: Option, given: int) -> int | None:
    """How many of the words that follow an option are its own; None where it needs others."""
    match option.takes:
        case "*":
            return given
        case "+":
            return given or None
        case count:
            return count if given >= count else None


def _problem(option: Option, given: list[Word]) -> str | None:
    for word in given:
        if word.unknown is not None:
            continue
        try:
            value = _one(option, word.text)
        except ValueError:
            kind = "a whole number" if option.type == "int" else "a number"
            return f"must be {kind}, not {word.text!r}"
        if option.choices is not None and value not in option.choices:
            return f"must be one of {', '.join(map(str, option.choices))}, not {word.text!r}"
    return None


def _value(option: Option, spelling: str, given: list[Word]) -> Any:
    if option.takes == 0:
        return not spelling.startswith("--no-") if option.sets is None else option.sets
    values = [_one(option, word.text) for word in given]
    if option.means is not None:
        values = [option.means[value] for value in values]
    return values[0] if option.takes == 1 else values


def _one(option: Option, text: str) -> Any:
    """One value in its option's type; argparse's bool is true for every text that is not empty."""
    match option.type:
        case "int":
            return int(text)
        case "float":
            return _finite(float(text))
        case "bool":
            return bool(text)
        case _:
            return text


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError
    return value
