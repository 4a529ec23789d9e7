"""Results that several plans have in common, each worked out once.

What a function reads is what it is given: equal arguments are the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, TypeVarTuple

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class Memo:
    """Results by what made them and what that was given: records by their values, what has no
    value of its own (a ledger, a table) by what it is.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self._results)

    def __call__(self, make: Callable[[*Given], Result], *given: *Given) -> Result:
        """What `make` makes of this, now or before."""
        key = make, *given
        try:
            result: Result = self._results[key]
        except KeyError:
            result = self._results[key] = make(*given)
        return result

    def within(self, make: Callable[[Memo, *Given], Result], *given: *Given) -> Result:
        """What was worked out for this, where `make` asks the memo for parts of it."""
        key = make, *given
        try:
            result: Result = self._results[key]
        except KeyError:
            result = self._results[key] = make(self, *given)
        return result


class Memos:
    """The memo of a process. One that holds more than `max_results` makes way for an empty one;
    who has it keeps it to the end.
    """

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._memo = Memo()

    def current(self) -> Memo:
        """The memo that the next plan is estimated with."""
        if len(self._memo) > self._max_results:
            self._memo = Memo()
        return self._memo
