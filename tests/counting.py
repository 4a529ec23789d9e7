"""What work costs in calls of functions, which no other load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(work: Callable[[], object], counted: Callable[[FrameType, str], bool]) -> int:
    """How many calls the work makes, of those that are counted: by the frame, and by `call` or
    `c_call`.
    """
    count = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call") and counted(frame, event)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
