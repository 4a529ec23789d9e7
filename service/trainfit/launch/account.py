"""What became of every key of a launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any

from trainfit.estimator.results import Direction


def where(file: str, line: int | None, key: str) -> str:
    """A key and its place, for a message."""
    return f"{file}{'' if line is None else f':{line}'}: {key}"


@dataclass(frozen=True, slots=True)
class Became:
    """A field of the job, by its JSON Pointer, and the value that it was given."""

    pointer: str
    value: Any


@dataclass(frozen=True, slots=True)
class Recognised:
    """A key that decides memory. It became fields of the job, none where it says what holds anyway.

    `file` is the path of a file that was sent, or argv or env, which have no lines.
    """

    file: str
    line: int | None
    key: str
    value: Any
    became: list[Became]

    @property
    def where(self) -> str:
        """The place and the key, for a message."""
        return where(self.file, self.line, self.key)


@dataclass(frozen=True, slots=True)
class Irrelevant:
    """A key that is known not to change memory."""

    file: str
    line: int | None
    key: str


@dataclass(frozen=True, slots=True)
class Defaulted:
    """A field of the job that neither a key nor an override sets, at the value that the launch
    would run with.
    """

    pointer: str
    value: Any
    whose: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A field that the launch sets and that does not count, its value there, and the field of the
    overrides that took its place: the same, or one that it cannot stand beside.
    """

    pointer: str
    value: Any
    by: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key that may change memory in a way that is not modelled, and why it is not read. It moves
    the peak in this direction, and nobody knows how far; `source` says who tells the direction.
    `missing` are pointers into the launch: what is given at any of them takes the key's place.
    """

    file: str
    line: int | None
    key: str
    value: Any
    why: str
    accepted: bool
    missing: list[str] = dataclass_field(default_factory=list)
    direction: Direction = "either"
    source: str | None = None

    @property
    def where(self) -> str:
        """The place and the key, for a message."""
        return where(self.file, self.line, self.key)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A key that changes memory in a way that is not modelled, but at most so far: the bounds of an
    estimate take it in. At the values of `within` the peak is as far as the key can move it in its
    direction, with so many `samples` in the place of each of a micro-batch, in another phase than a
    step where it is `apart`; `bytes` is the most that it moves it besides, on each GPU, and `share`
    the most of a GPU's memory. Unless another process holds these, `outside` of this one, they are
    tensors, beside which more may be cached. `source` says so.
    """

    file: str
    line: int | None
    key: str
    value: Any
    why: str
    direction: Direction
    source: str | None
    within: list[Became]
    bytes: int
    share: float
    samples: int
    apart: bool
    outside: bool

    @property
    def where(self) -> str:
        """The place and the key, for a message."""
        return where(self.file, self.line, self.key)


@dataclass(frozen=True, slots=True)
class Account:
    """Every key of a launch, in the order of the files, every default that decides memory, and what
    overrides took the place of.
    """

    recognised: list[Recognised]
    irrelevant: list[Irrelevant]
    defaulted: list[Defaulted]
    unsupported: list[Unsupported]
    replaced: list[Replaced] = dataclass_field(default_factory=list)
    bounded: list[Bounded] = dataclass_field(default_factory=list)


def with_irrelevant(account: Account, others: Iterable[Account]) -> Account:
    """The account, with the keys that only other accounts of the same launch find to change
    nothing.
    """
    found = [*account.irrelevant, *(key for each in others for key in each.irrelevant)]
    return replace(account, irrelevant=list(dict.fromkeys(found)))


def with_unsupported(account: Account, others: Iterable[Account]) -> Account:
    """The account, with the keys that only other ways to read the same launch leave out."""
    others = list(others)
    lost = {each.where: each for other in others for each in other.unsupported}
    lost |= {each.where: each for each in account.unsupported}
    bounded = {each.where: each for other in others for each in other.bounded}
    bounded |= {each.where: each for each in account.bounded}
    found = lost.keys() | bounded.keys()
    return replace(
        account,
        recognised=[each for each in account.recognised if each.where not in found],
        irrelevant=[
            each
            for each in account.irrelevant
            if where(each.file, each.line, each.key) not in found
        ],
        unsupported=list(lost.values()),
        bounded=[each for name, each in bounded.items() if name not in lost],
    )
