"""How far an option that is not modelled moves the peak, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfit.cli.refusals import as_flag
from trainfit.decisions.quantities import gib

if TYPE_CHECKING:
    from trainfit.launch.account import Bounded

WORDS = {"lowers": "lower", "raises": "higher", "either": "lower or higher"}


def reach(option: Bounded) -> str:
    """In which direction, and at most to what."""
    ends = []
    if option.within:
        ends.append(" ".join(f"{as_flag(each.pointer)} {each.value}" for each in option.within))
    if option.samples > 1:
        ends.append(f"{option.samples} samples in the place of each")
    if option.bytes:
        ends.append(f"{gib(option.bytes)} GiB")
    says = f" ({option.source})" if option.source else ""
    return f"{WORDS[option.direction]}, at most as far as {' and '.join(ends)}{says}"
