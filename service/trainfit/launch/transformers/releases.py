"""Which releases of its libraries a run can be of: what each has stands in `changes`.

They are given by framework_version, and where it leaves a library open by the keys that only some
of its releases have, by the model, and by what one library demands of another. Where the latest
release remains possible, it is meant; else each that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.fork import Fork
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import (
    LATEST,
    MODELS_SINCE,
    OLDEST,
    REQUIRED,
    TRANSFORMERS_5,
    TRL_FOR_5,
    KeysByRelease,
    Library,
    LibraryChange,
    Release,
)

LIBRARIES: tuple[Library, ...] = get_args(Library)
AMBIGUOUS = ("use_cache", "project")
"""Keys of TrainingArguments that scripts had under the same name before."""
_ONE = re.compile(r"(?:([a-z][\w-]+?)(?:\s*==\s*|[\s=_-]*))?v?(\d+(?:\.\d+)*)[\w.+-]*", re.I)


def named_releases(version: str | None, project: str = "transformers") -> dict[str, Release]:
    """The releases that 4.57.1, v4.57.1 or transformers==4.57.1 trl==0.24.0 name; a number alone is
    the project's. Raises LaunchError where nothing is named, or a release is too old.
    """
    found: dict[str, Release] = {}
    for part in re.split(r"[\s,;]+(?=[a-z]{2})", (version or "").strip(), flags=re.I):
        if part and part.lower() not in ("main", "latest"):
            one = _ONE.fullmatch(part)
            if one is None:
                example = "transformers==4.57.1 trl==0.24.0"
                message = f"framework_version: {part!r} names no release; say {example}"
                raise LaunchError(Complaint(message))
            release = tuple(int(number) for number in one[2].split("."))
            found[(one[1] or project).lower()] = release if len(release) > 1 else (*release, 0)
    for library, oldest in OLDEST.items():
        if library in found and found[library] < oldest:
            said = f"{library} {_number(found[library])}"
            message = f"framework_version: {said} is too old; known since {_number(oldest)}"
            raise LaunchError(Complaint(message))
    return found


class Span(NamedTuple):
    """Releases from the first to the one before the end, and the keys that say so."""

    first: Release
    end: Release
    since: Setting | None = None
    until: Setting | None = None

    @property
    def is_one(self) -> bool:
        """Whether a release is named, or the latest is meant."""
        return self.end == _after(self.first)

    def __str__(self) -> str:
        if self.is_one:
            return "the latest" if self.first == LATEST else _number(self.first)
        return f"from {_number(self.first)} to before {_number(self.end)}"


class Releases:
    """The releases that a run can be of. To ask for what they differ in narrows them."""

    def __init__(
        self, named: Mapping[str, Release], fork: Fork, libraries: Sequence[Library] = ()
    ) -> None:
        """`libraries` are those of which any release is possible that is not told otherwise; of
        others the latest is meant.
        """
        self._fork = fork
        self._libraries = tuple(libraries)
        self._open = tuple(each for each in libraries if each not in named)
        self._spans: dict[Library, Span] = {
            library: _one(named.get(library, LATEST)) for library in LIBRARIES
        }
        self._spans |= {each: Span(OLDEST[each], _after(LATEST)) for each in self._open}

    def has(self, change: LibraryChange) -> bool:
        """Whether the library is of the release that made this change, or of a later one. Where
        both can be, either is read.
        """
        span = self._spans[change.library]
        if span.first >= change.since or span.end <= change.since:
            return span.first >= change.since
        changed = self._fork.choose((True, False))
        self._spans[change.library] = (
            span._replace(first=change.since) if changed else span._replace(end=change.since)
        )
        self._agree()
        return changed

    def named(self, library: Library) -> Release | None:
        """The release of a library, where there is but one and it is not the latest."""
        span = self._spans[library]
        return span.first if span.is_one and span.first != LATEST else None

    def settle(
        self, lists: Iterable[KeysByRelease], keys: Mapping[str, Setting], model_type: str
    ) -> None:
        """Leave the releases that have all these keys and the model; where every library can be the
        latest, it is. Raises LaunchError, with both keys, where no release has two of them.
        """
        for each in lists:
            for key, setting in keys.items():
                if each.library in self._open and key not in AMBIGUOUS:
                    self._narrow(each, key, setting)
        span, since = self._spans["transformers"], MODELS_SINCE.get(model_type, ())
        # The code of a model may also come with its weights: it contradicts no key.
        if "transformers" in self._open and span.first < since < span.end:
            self._spans["transformers"] = span._replace(first=since)
        self._agree()
        if all(self._spans[library].end > LATEST for library in self._libraries):
            self._spans |= {library: _one(LATEST) for library in self._open}

    def _narrow(self, keys: KeysByRelease, key: str, setting: Setting) -> None:
        span = self._spans[keys.library]
        since = next((release for release, names in keys.since.items() if key in names), ())
        until = next((release for release, names in keys.until.items() if key in names), None)
        if since > span.first:
            span = span._replace(first=since, since=setting)
        if until is not None and until < span.end:
            span = span._replace(end=until, until=setting)
        if span.first >= span.end:
            assert span.since is not None
            assert span.until is not None
            message = (
                f"no release of {keys.library} has both {span.since.key}, since "
                f"{_number(span.first)}, and {span.until.key}, until before {_number(span.end)}; "
                "take one of them away, or name the release in framework_version"
            )
            raise LaunchError(Complaint.at(setting, message))
        self._spans[keys.library] = span

    def _agree(self) -> None:
        """TRL demands releases of transformers, and came before others."""
        if "trl" not in self._libraries:
            return
        trl, base = self._spans["trl"], self._spans["transformers"]
        if "transformers" in self._open:
            least = max(
                (each for since, each in REQUIRED.items() if since <= trl.first), default=()
            )
            end = min(base.end, TRANSFORMERS_5) if trl.end <= TRL_FOR_5 else base.end
            base = base._replace(first=max(base.first, least), end=end)
        if "trl" in self._open:
            beyond = [since for since, least in REQUIRED.items() if least >= base.end]
            first = max(trl.first, TRL_FOR_5) if base.first >= TRANSFORMERS_5 else trl.first
            trl = trl._replace(first=first, end=min([trl.end, *beyond]))
        if trl.first < trl.end and base.first < base.end:
            self._spans |= {"trl": trl, "transformers": base}

    def __str__(self) -> str:
        spans = {library: self._spans[library] for library in LIBRARIES if library in self._open}
        return " and ".join(f"{library} {span}" for library, span in spans.items())


def _one(release: Release) -> Span:
    return Span(release, _after(release))


def _after(release: Release) -> Release:
    return (*release, 0)


def _number(release: Release) -> str:
    return ".".join(map(str, release))
