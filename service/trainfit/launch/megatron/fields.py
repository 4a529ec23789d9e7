"""Arguments that become fields of a job as they are, or by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Reading
from trainfit.launch.fields import as_field
from trainfit.launch.megatron.options import Defaults
from trainfit.launch.settings import Setting


def copy(reading: Reading, names: Mapping[str, str], part: str, *, applies: bool = True) -> None:
    """Set fields of a part of the job to arguments, which change nothing where they do not
    apply.
    """
    for name, field in names.items():
        pointer = f"{part}/{field}"
        if applies and reading.is_unknown(name):
            reading.copy(name, pointer)
        elif (setting := reading.get(name)) is not None and applies:
            put(reading, setting, pointer, reading.value(name))


def put(reading: Reading, setting: Setting, pointer: str, value: Any) -> None:
    """Set a field. A value that Megatron-LM takes and the field does not is unsupported."""
    try:
        value = as_field(pointer, value)
    except ValueError as error:
        reading.draft.leave_out(setting, f"is not modelled: {error}")
    else:
        reading.draft.put(pointer, value, setting)


def put_default(reading: Reading, defaults: Defaults, name: str, pointer: str) -> None:
    """Set a field to what the release sets where an argument is not given."""
    if name not in reading.settings and (value := defaults.get(name)) is not None:
        reading.draft.default(pointer, value, defaults.name)
