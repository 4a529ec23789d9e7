"""Results that several plans have in common, each worked out once.

A key names all that its result rests on; what that is, a `rests_on` says beside it.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Result = TypeVar("Result")


class Memo:
    """Results by their keys."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._kept: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self._results)

    def __call__(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """What was made under this key, now or before."""
        try:
            result: Result = self._results[key]
        except KeyError:
            result = self._results[key] = make()
        return result

    def identity(self, thing: object) -> int:
        """A key for this very thing, which is kept so that no other takes its place."""
        self._kept[id(thing)] = thing
        return id(thing)


class Memos:
    """The memo of a process. One that holds more than `max_results` makes way for an empty one;
    who has it keeps it to the end, since its keys hold only as long as what it keeps.
    """

    def __init__(self, max_results: int) -> None:
        self._max_results = max_results
        self._memo = Memo()

    def current(self) -> Memo:
        """The memo that the next plan is estimated with."""
        if len(self._memo) > self._max_results:
            self._memo = Memo()
        return self._memo
