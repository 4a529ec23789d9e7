"""Overrides of a config on a command line, as Hydra writes them: model.seq_length=4096."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainfit.launch.dotlist import hydra_value
from trainfit.launch.draft import Draft
from trainfit.launch.program import Word
from trainfit.launch.settings import Setting, leaves_of

OVERRIDE = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[A-Za-z_][\w.]*)(?:=(?P<value>.*))?", re.DOTALL)


def is_override(text: str) -> bool:
    """Whether a word sets or removes a key."""
    found = OVERRIDE.fullmatch(text)
    return found is not None and (found["value"] is not None or found["sign"] == "~")


def overrides_of(words: Sequence[Word], draft: Draft) -> Iterator[tuple[str, Setting]]:
    """Dotted keys and their settings. What takes a key away is unsupported: what then counts is
    the base's, which is not read.
    """
    for word in words:
        found = OVERRIDE.fullmatch(word.text)
        if found is None:
            continue
        key = found["key"]
        value = hydra_value(found["value"] or "") if word.unknown is None else found["value"]
        setting = Setting(key, value, word.file, word.line, word.unknown)
        if found["sign"] == "~":
            draft.leave_out(setting, "takes a key away, and its default is not read")
        else:
            yield from ((each.key, each) for each in leaves_of(setting))
