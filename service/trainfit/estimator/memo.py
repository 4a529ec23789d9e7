"""Results that several plans of one question have in common, each worked out once.

A key names all that its result rests on; what that is, a `rests_on` says beside it.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Result = TypeVar("Result")


class Memo:
    """Results by their keys. It serves one question and goes with it."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._kept: dict[int, object] = {}

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
