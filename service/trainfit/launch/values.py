"""What the values of settings mean, whether a file has them or a command line."""

from __future__ import annotations

import re
from typing import Any

from trainfit.documents.document import FileError, parse_documents

WHOLE = re.compile(r"[+-]?\d{1,18}")


def whole(value: Any) -> int:
    """A whole number. Raises ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and WHOLE.fullmatch(value):
        return int(value)
    raise ValueError("must be a whole number")


def size(value: Any) -> int:
    """A number of things, of which there is at least one."""
    if (number := whole(value)) < 1:
        raise ValueError("must be 1 or more")
    return number


def flag(value: Any) -> bool:
    """True or false, however it is written."""
    spelled = value.casefold() if isinstance(value, str) else value
    if spelled in (True, "true"):
        return True
    if spelled in (False, "false"):
        return False
    raise ValueError("must be true or false")


def word(value: Any) -> str:
    """A text. Raises ValueError for anything else."""
    if isinstance(value, str):
        return value
    raise ValueError("must be a word")


def names(value: Any) -> list[str]:
    """A list of names, or one text with commas between them."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise ValueError("must be a list of names")


PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_/.-]*")
"""Words that are themselves, but for those that have a meaning."""
MEANINGS = {
    spelled: meaning
    for word, meaning in (
        *(("yes", True), ("on", True), ("true", True)),
        *(("no", False), ("off", False), ("false", False), ("null", None)),
    )
    for spelled in (word, word.capitalize(), word.upper())
}
DECIMAL = re.compile(r"0|[1-9][0-9]{0,17}")


def scalar(text: str) -> Any:
    """What a word means where words are YAML: a number, true, null, a list, or itself."""
    # Nearly all are a plain word or a whole number, for which no parser is needed.
    if PLAIN.fullmatch(text):
        return MEANINGS.get(text, text)
    if DECIMAL.fullmatch(text):
        return int(text)
    try:
        documents = parse_documents(".yaml", text)
    except FileError:
        return text
    return documents[0].value if len(documents) == 1 else text
