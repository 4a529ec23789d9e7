"""The settings of one source of a run; their values are text on a command line, typed in a file."""

from __future__ import annotations

from typing import Any

from trainfit.launch.draft import Reading
from trainfit.launch.settings import Setting

TRUE = ("true", "t", "yes", "y", "1", "on")
FALSE = ("false", "f", "no", "n", "0", "off")
UNSET = (None, "", "none", "None", "null")


class TrainerSource(Reading):
    """A null is as good as nothing: the default holds."""

    def get(self, key: str) -> Setting | None:
        setting = super().get(key)
        return None if setting is None or _is_unset(setting.value) else setting

    def is_on(self, key: str) -> bool:
        """Whether a switch is on. Complains of a value that is neither."""
        setting = self.get(key)
        if setting is None:
            return False
        value = as_bool(self.value(key))
        if value is None:
            self.draft.complain(setting, f"{setting.value!r} is neither true nor false")
        return bool(value)

    def number(self, key: str) -> int | None:
        """A whole number. Complains of anything else."""
        setting = self.get(key)
        if setting is None:
            return None
        number = as_int(setting.value)
        if number is None:
            self.draft.complain(setting, f"{setting.value!r} is no whole number")
        return number

    def word(self, key: str, default: str = "") -> str:
        """A word that names a choice, in small letters."""
        return str(self.value(key, default)).strip().lower()

    def words(self, key: str) -> list[str]:
        """A list of names, given as such or as one text."""
        value = self.value(key, [])
        listed = value if isinstance(value, list) else str(value).replace(",", " ").split()
        return [str(each) for each in listed]


def as_bool(value: Any) -> bool | None:
    """None where it is neither."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    return True if text in TRUE else False if text in FALSE else None


def as_int(value: Any) -> int | None:
    """None where it is no whole number; 1e9 is one."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not number.is_integer():
        return None
    return int(value) if isinstance(value, int) else int(number)


def _is_unset(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in UNSET)
