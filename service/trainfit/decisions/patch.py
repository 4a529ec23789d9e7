"""JSON Patch (RFC 6902) on the fields of a job: applied, and made so that any tool can apply it.

Of the operations there are add, replace and remove; paths lead through objects, not arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeVar

from trainfit.errors import TrainfitError
from trainfit.resolve.findings import Change
from trainfit.specs.job import Job
from trainfit.specs.part import Part

AnyJob = TypeVar("AnyJob", bound=Job)


class PatchError(TrainfitError, ValueError):
    """A path that leads to nothing, or through something that is no object."""

    def __init__(self, change: Change, message: str) -> None:
        super().__init__(f"{change.op} {change.path or '(the whole job)'}: {message}")
        self.change = change
        self.message = message


def apply(job: AnyJob, changes: Iterable[Change]) -> AnyJob:
    """The job as changed, checked anew. What a patch does not touch stays as it was given.

    Raises PatchError where a path leads nowhere, and pydantic's ValidationError where the result
    is no job.
    """
    changes = tuple(changes)
    touched = {_names(change)[0] for change in changes}
    untouched = {name: getattr(job, name) for name in job.model_fields_set - touched}
    document = job.model_dump(exclude_unset=True, exclude=set(untouched))
    for change in changes:
        _change(document, deepcopy(change))
    return type(job).model_validate({**document, **untouched})


def _change(document: dict[str, Any], change: Change) -> None:
    *parents, name = _names(change)
    place: Any = document
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        raise PatchError(change, "the path leads through something that is no object")
    if change.op != "add" and name not in place:
        raise PatchError(change, "there is nothing at this path")
    if change.op == "remove":
        del place[name]
    else:
        place[name] = change.value


def _names(change: Change) -> list[str]:
    """The names on a path, unescaped (RFC 6901)."""
    root, *names = change.path.split("/")
    if root or not names:
        raise PatchError(change, "a path starts with / and names a field")
    return [name.replace("~1", "/").replace("~0", "~") for name in names]


def patch(job: Job, values: Mapping[str, Any]) -> tuple[Change, ...]:
    """The changes that set these fields of parts of the job. Where it leaves a part out, the part
    is added with all of its fields, since RFC 6902 adds to objects that are there.
    """
    parts = {path.split("/")[1] for path in values}
    document = job.model_dump(exclude_unset=True, include=parts)
    changes: list[Change] = []
    for path, value in values.items():
        change = _to_set(job, document, path, value)
        _change(document, change)
        within_an_added_part = any(path.startswith(f"{each.path}/") for each in changes)
        if not within_an_added_part:
            changes.append(change)
    return tuple(changes)


def _to_set(job: Job, document: dict[str, Any], path: str, value: Any) -> Change:
    _, *parents, name = path.split("/")
    part: Part = job
    for depth, parent in enumerate(parents, 1):
        part = getattr(part, parent)
        if parent not in document:
            whole = part.model_dump(exclude_unset=True)
            place = whole
            for inner in parents[depth:]:
                place = place.setdefault(inner, {})
            place[name] = value
            return Change("add", "/" + "/".join(parents[:depth]), whole)
        document = document[parent]
    return Change("replace" if name in document else "add", path, value)
