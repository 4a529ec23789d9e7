"""Megatron-LM's arguments -> a job.

Arguments stand here under their names in Megatron-LM's namespace, whether they came from a command
line or a file. Those that become a field as they are stand in tables; those that decide together
have a function. What is not given has the default of the release.

Sources: validate_args and core_transformer_config_from_args of megatron/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from trainfit.launch.draft import Reading
from trainfit.launch.keys import Keys, table_of
from trainfit.launch.megatron.dimensions import (
    is_of_the_hub,
    leave_out_dimensions,
    read_model,
    read_vocabulary,
)
from trainfit.launch.megatron.forks import read_forks
from trainfit.launch.megatron.hybrid import read_hybrid
from trainfit.launch.megatron.layout import read_layout
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.megatron.step import bound_copies, read_step
from trainfit.launch.megatron.switches import read_switches


def read_arguments(
    reading: Reading, defaults: Defaults, *, hybrid: bool = False, tokenizer: str | None = None
) -> None:
    """Put a reading's arguments into its draft, and sort out those that are not read. The program
    may be one for `hybrid` models, and have a kind of `tokenizer` of its own where none is named.
    """
    spelled_out = not is_of_the_hub(reading.draft)
    if spelled_out:
        read_model(reading, defaults)
        read_hybrid(reading, hybrid=hybrid)
    else:
        leave_out_dimensions(reading)
    read_layout(reading, defaults)
    read_step(reading, defaults)
    read_forks(reading, defaults)
    read_switches(reading, defaults)
    if spelled_out:
        read_vocabulary(reading, defaults, tokenizer)
    bound_copies(reading)
    reading.close(_known(), without_effect=_at_default(defaults.release))


@cache
def _known() -> Keys:
    return table_of(__package__, "options") | table_of(__package__, "fields")


@cache
def _at_default(release: int | None) -> Mapping[str, tuple[Any, Any]]:
    """What each argument is where nothing sets it: in a release, and in the latest."""
    own, latest = MegatronParser(release).defaults(), MegatronParser(None).defaults()
    names = table_of(__package__, "options").rows
    return {name: (own.get(name), latest.get(name)) for name in names}
