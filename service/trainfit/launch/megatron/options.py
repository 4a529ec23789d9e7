"""What Megatron-LM's parser takes, release by release.

`options.json` has every option of the releases that it names, read from the argparse calls and
config dataclasses of the files that it names. Where an option changed, it stands there once for
each shape, with the first and the last release of that shape by their numbers in the list.
`patch_options.json` has those that Pai-Megatron-Patch adds to all of them and its scripts give,
`fork_options.json` those of the forks that it names and of Megatron-LM before core_v0.5.0, and
`slime_options.json` slime's, of any release. An option may be another name of one of Megatron-LM's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Option:
    """One option in one shape. `dest` is its name in Megatron-LM's namespace.

    `takes` counts its values as argparse does; an option that takes none sets `dest` to `sets`, or
    to whether it is spelled without --no- where that is None.
    """

    names: tuple[str, ...]
    dest: str
    takes: Literal[0, 1, 3, "*", "+"]
    sets: bool | None
    type: Literal["int", "float", "bool", "str"]
    choices: tuple[Any, ...] | None
    default: Any
    since: int
    until: int
    means: Mapping[str, str] | None = None
    """What Megatron-LM calls the choices, where it does so otherwise."""


@dataclass(frozen=True, slots=True)
class MegatronReleases:
    """Every option by each of its spellings, oldest shape first; `forks` has those of forks."""

    names: tuple[str, ...]
    options: Mapping[str, tuple[Option, ...]]
    forks: Mapping[str, tuple[Option, ...]]

    @property
    def latest(self) -> int:
        return len(self.names) - 1

    def dests(self) -> frozenset[str]:
        """Every name in the namespace of any release."""
        every = (*self.options.values(), *self.forks.values())
        return frozenset(option.dest for shapes in every for option in shapes)


class UnknownReleaseError(ValueError):
    """A release of Megatron-LM that `options.json` does not have."""


@cache
def releases() -> MegatronReleases:
    """The options that were read from the sources."""
    data, patch, forks, slime = (
        json.loads((files(__package__) / f"{name}options.json").read_text("utf-8"))
        for name in ("", "patch_", "fork_", "slime_")
    )
    latest = len(data["releases"]) - 1
    options: dict[str, list[Option]] = {}
    for entry in (*data["options"], *patch["options"]):
        option = _option(entry, latest)
        for name in option.names:
            options.setdefault(name, []).append(option)
    return MegatronReleases(
        tuple(data["releases"]),
        {
            name: tuple(sorted(shapes, key=lambda option: option.since))
            for name, shapes in options.items()
        },
        {
            name: (option,)
            for option in (
                _option(entry, latest) for entry in (*forks["options"], *slime["options"])
            )
            for name in option.names
        },
    )


def _option(entry: Mapping[str, Any], latest: int) -> Option:
    choices = entry.get("choices")
    return Option(
        names=tuple(entry["names"]),
        dest=entry["dest"],
        takes=0 if "sets" in entry else entry.get("nargs", 1),
        sets=entry.get("sets"),
        type=entry.get("type", "str"),
        choices=None if choices is None else tuple(choices),
        default=entry.get("default"),
        since=entry.get("since", 0),
        until=entry.get("until", latest),
        means=entry.get("means"),
    )


_VERSION = re.compile(r"(?:core[_-])?[vr]?(\d+)\.(\d+)[\w.+-]*", re.IGNORECASE)


def release_of(version: str | None) -> int | None:
    """The number of a release; of core_v0.12.3, core_r0.12.0 and 0.12 it is that of core_v0.12.0.

    None where no version is given. Raises UnknownReleaseError.
    """
    known = releases()
    if version is None:
        return None
    if version.casefold() in ("main", "dev"):
        return known.latest
    found = _VERSION.fullmatch(version.strip())
    name = f"core_v{found[1]}.{found[2]}.0" if found else ""
    if name not in known.names:
        raise UnknownReleaseError(
            f"{version!r} is no release of Megatron-LM that is known; there are "
            f"{known.names[0]} to {known.names[-2]}, and main"
        )
    return known.names.index(name)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Values of arguments that nothing sets, whose they are, and as of which release."""

    name: str
    values: Mapping[str, Any]
    release: int | None

    def get(self, dest: str) -> Any:
        """None where the argument is unset, or not known."""
        return self.values.get(dest)

    def before(self, name: str) -> bool:
        """Whether the release came before this one."""
        return self.release is not None and self.release < releases().names.index(name)


@dataclass(frozen=True, slots=True)
class MegatronParser:
    """The parser of one release; without one, that of every release, the latest shape first."""

    release: int | None

    @property
    def name(self) -> str:
        """The release, for a message."""
        known = releases()
        return f"Megatron-LM {known.names[known.latest if self.release is None else self.release]}"

    def shapes(self, spelling: str) -> Sequence[Option]:
        """The option of this spelling, in the shapes that the release allows; a fork's is last."""
        shapes = releases().options.get(spelling, ())
        if self.release is not None:
            shapes = tuple(each for each in shapes if each.since <= self.release <= each.until)
        return (*shapes[::-1], *releases().forks.get(spelling, ()))

    def defaults(self) -> Defaults:
        """What the release sets where nothing is given."""
        return Defaults(self.name, _defaults(self.release), self.release)

    def why_not(self, spelling: str) -> str:
        """Why the release has no option of this spelling."""
        known = releases()
        shapes = known.options.get(spelling)
        if shapes is None:
            return "no release of Megatron-LM has this option" + "".join(
                f"; {name} is one" for name in _near(spelling)
            )
        assert self.release is not None
        if self.release < shapes[0].since:
            return f"came with {known.names[shapes[0].since]}"
        return f"went after {known.names[shapes[-1].until]}"


@lru_cache(maxsize=256)
def _near(spelling: str) -> Sequence[str]:
    """The option that is likest, of those that share a word: to compare every other takes long."""
    given = set(spelling.strip("-").split("-"))
    alike = [name for name in releases().options if given.intersection(name.split("-"))]
    return get_close_matches(spelling, alike, n=1)


@cache
def _defaults(release: int | None) -> Mapping[str, Any]:
    """The defaults of a release; without one, of the latest that has the option."""
    return {
        option.dest: option.default
        for option in sorted(_every_option(), key=lambda option: option.until)
        if release is None or option.since <= release <= option.until
    }


def _every_option() -> Iterator[Option]:
    for shapes in releases().options.values():
        yield from shapes
