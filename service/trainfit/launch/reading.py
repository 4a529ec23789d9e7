"""A job as it was read from a launch, and where in the launch each part of it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from trainfit.estimator.results import Direction
from trainfit.launch.account import Account
from trainfit.launch.fields import named_as_fields
from trainfit.launch.open_facts import OpenFact
from trainfit.launch.overriding import replaces
from trainfit.launch.settings import Setting
from trainfit.launch.variants import Variant
from trainfit.specs.job import AS_JOB
from trainfit.specs.launch import Launch, LaunchFormat


@dataclass(frozen=True, slots=True)
class ReadLaunch:
    """How a launch was read: as what, and what became of every key. `releases` are those of the
    framework that it was read as, where it can be of several; `variants` the others, with what of
    the job differs under them.
    """

    format: LaunchFormat
    framework_version: str | None
    releases: str | None
    variants: list[Variant]
    account: Account


@dataclass(frozen=True, slots=True)
class JobFromLaunch(ReadLaunch):
    """The job that a launch describes, ready to be sent, and what became of every key."""

    job: Annotated[dict[str, Any], AS_JOB]

    @classmethod
    def of(cls, reading: LaunchReading) -> JobFromLaunch:
        """What is answered to one who sent a launch to be read."""
        read = reading.launch
        return cls(
            read.format,
            read.framework_version,
            read.releases,
            read.variants,
            read.account,
            reading.job,
        )


class LaunchPlace(NamedTuple):
    """A place in a launch: the pointer into it, the line there, and words that say the same."""

    pointer: str
    line: int | None
    words: str


class UnreadSetting(NamedTuple):
    """What is not modelled and was not accepted: where it stands, why, and in which direction it
    moves the peak, nobody knows how far.
    """

    place: LaunchPlace
    why: str
    direction: Direction

    @property
    def message(self) -> str:
        """In the words of who wrote the launch."""
        return f"{self.place.words}: {self.why}"


@dataclass(frozen=True, slots=True)
class LaunchReading:
    """A job as it was read from `source`, not yet checked. `origins` are the settings that its
    fields came from, by their pointers. Where `left_open` is what was sent, that lacks the facts
    that are `open`, and `source` has a value for each.
    """

    source: Launch
    launch: ReadLaunch
    job: dict[str, Any]
    origins: dict[str, Setting]
    open: tuple[OpenFact, ...] = ()
    left_open: Launch | None = None

    def place_of(self, pointer: str) -> LaunchPlace:
        """Where the launch says what this field of the job is, or where it could be given."""
        if pointer.startswith("/gpu") and self.source.gpu is not None:
            given = "/gpu" if isinstance(self.source.gpu, str) else pointer
            return LaunchPlace(given, None, given)
        if replaces(named_as_fields(self.source.overrides), pointer):
            return LaunchPlace(f"/overrides{pointer}", None, f"{pointer} of the overrides")
        nearest = pointer
        while nearest:
            if setting := self.origins.get(nearest):
                return LaunchPlace(place_in(self.source, setting.file), setting.line, setting.where)
            nearest = nearest.rpartition("/")[0]
        return LaunchPlace(f"/overrides{pointer}", None, f"{pointer or '/'} of the job")

    def unread(self) -> list[UnreadSetting]:
        """What is not modelled and was not accepted, and why."""
        return [
            UnreadSetting(
                LaunchPlace(place_in(self.source, each.file), each.line, each.where),
                each.why,
                each.direction,
            )
            for each in self.launch.account.unsupported
            if not each.accepted
        ]


def place_in(source: Launch, file: str | None) -> str:
    """The pointer to a file of a launch by its path, to argv or to env; else to all of it."""
    for index, each in enumerate(source.files):
        if each.path == file:
            return f"/files/{index}/content"
    return f"/{file}" if file in ("argv", "env") else ""
