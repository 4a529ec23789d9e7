"""A job as it is asked of the service, read field by field so that nothing in it is passed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class NotHonouredError(ValueError):
    """A field of a job asks for what a program does not run."""


class Asked:
    """The fields of a job by dotted path. Each is taken once, `nothing_left` refuses the rest."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._left = dict(_leaves(job, ""))
        # What is measured is the GPU that the program finds.
        for path in [path for path in self._left if path.split(".")[0] == "gpu"]:
            del self._left[path]

    def take(self, path: str, unset: Any = None) -> Any:
        """The value of a field, or what the service takes where it is not set."""
        return self._left.pop(path, unset)

    def has(self, part: str) -> bool:
        """Whether a field of this part is left."""
        return any(path.startswith(part + ".") for path in self._left)

    def require(self, path: str, *values: Any, unset: Any = None) -> Any:
        """The same, of these values only."""
        value = self.take(path, unset)
        if value not in values:
            raise NotHonouredError(f"{path} {value!r}: only {values} run here")
        return value

    def nothing_left(self) -> None:
        """Raises NotHonouredError where a field was not taken."""
        if self._left:
            raise NotHonouredError(f"not honoured: {self._left}")


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        if isinstance(each, Mapping):
            yield from _leaves(each, f"{prefix}{key}.")
        else:
            yield prefix + key, each
