"""A launch under the other releases that it can be of: what of the job would differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.specs.job import Job

AnyJob = TypeVar("AnyJob", bound=Job)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of the job by its JSON Pointer, as it was read and as other releases have it."""

    pointer: str
    value: Any
    otherwise: Any


@dataclass(frozen=True, slots=True)
class Variant:
    """Releases that the launch can be of as well, and what differs under them."""

    releases: str
    differences: list[Difference]

    def of(self, job: AnyJob) -> AnyJob:
        """The job under these releases. A field that is no longer as it was read stays."""
        document = _document(job)
        for each in self.differences:
            place, name = _place(document, each.pointer)
            if place is not None and place.get(name) == each.value:
                place[name] = deepcopy(each.otherwise)
        return type(job).model_validate(
            {name: getattr(job, name) for name in job.model_fields_set} | document
        )


def variants(read: Document, others: Iterable[tuple[str, Document]]) -> list[Variant]:
    """What differs in other jobs of the same launch, each read as releases of these names have it.
    Nothing where what was read is no job. Raises LaunchError for another that is none.
    """
    try:
        base = _document(Job.model_validate(read))
    except ValidationError:
        return []
    named: list[Variant] = []
    for releases, other in others:
        try:
            document = _document(Job.model_validate(other))
        except ValidationError as error:
            raise LaunchError(Complaint(f"as {releases} takes it: {error}")) from None
        differences = list(_differences(base, document, ""))
        same = next((each for each in named if each.differences == differences), None)
        if same is not None:
            named[named.index(same)] = Variant(f"{same.releases}, or {releases}", differences)
        elif differences:
            named.append(Variant(releases, differences))
    return named


def _document(job: Job) -> Document:
    """All that a release may decide, with every default in its place."""
    return job.model_dump(mode="json", include={"model", "parallelism", "training", "framework"})


def _differences(base: Document, other: Document, pointer: str) -> Iterator[Difference]:
    """A model, and an object that has other names, differ as a whole."""
    for name, value in base.items():
        place, otherwise = f"{pointer}/{name}", other[name]
        alike = isinstance(value, Mapping) and isinstance(otherwise, Mapping)
        if alike and place != "/model" and value.keys() == otherwise.keys():
            yield from _differences(value, otherwise, place)
        elif value != otherwise:
            yield Difference(place, value, otherwise)


def differences(base: Document, other: Document, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of another job that this one does not have so, by their pointers; null are those
    that it has and the other does not.
    """
    yield from ((f"{pointer}/{name}", None) for name in base if name not in other)
    for name, value in other.items():
        place, before = f"{pointer}/{name}", base.get(name)
        if isinstance(value, dict) and (before is None or isinstance(before, dict)):
            yield from differences(before or {}, value, place)
        elif value != before:
            yield place, value


def _place(document: Document, pointer: str) -> tuple[Document | None, str]:
    *parents, name = pointer.strip("/").split("/")
    place: Any = document
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    return (place if isinstance(place, dict) else None), name
