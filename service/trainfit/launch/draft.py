"""A job while it is read from a launch, with the account of where each field came from."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.account import (
    Account,
    Became,
    Bounded,
    Defaulted,
    Irrelevant,
    Recognised,
    Unsupported,
)
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.fields import as_field, named_as_fields
from trainfit.launch.fork import Fork
from trainfit.launch.keys import Keys
from trainfit.launch.missing import OVERRIDES, asked_for
from trainfit.launch.overriding import at, replaces, settles
from trainfit.launch.settings import Setting

EVERY_KEY = "*"


class Draft:
    """Fields of a job, each with the settings or the default that it came from.

    A field is given as text where that is how it is written; it is read as the field's type.
    """

    def __init__(
        self,
        accepted: Container[str] = (),
        overrides: Mapping[str, Any] | None = None,
        fork: Fork | None = None,
    ) -> None:
        """`fork` leads through what the launch leaves open; without, the likeliest way is gone."""
        self.fork = Fork() if fork is None else fork
        self.releases = ""
        """Which releases this reading is of, where the launch leaves several open."""
        self.unnamed: list[Setting] = []
        """Arguments that name files which were sent, and which nothing else names."""
        self.job: dict[str, Any] = {}
        self.origins: dict[str, Setting] = {}
        self._accepted = accepted
        self._overrides = named_as_fields(overrides or {})
        self._recognised: dict[Setting, list[Became]] = {}
        self._irrelevant: list[Setting] = []
        self._defaulted: dict[str, Defaulted] = {}
        self._unsupported: dict[Setting, Effect] = {}
        self._complaints: list[Complaint] = []

    def put(self, pointer: str, value: Any, *settings: Setting) -> None:
        """Set a field, as these settings together say; what is put later counts."""
        unknown = [each for each in settings if each.unknown is not None]
        if unknown:
            for setting in unknown:
                if settles(self._overrides, pointer):
                    self.ignore(setting)
                else:
                    self._complain_of_unknown(setting, pointer)
            return
        try:
            value = as_field(pointer, value)
        except ValueError as error:
            if settles(self._overrides, pointer):
                self.ignore(settings[0])
            else:
                self.complain(settings[0], str(error))
            return
        self._set(pointer, value)
        self.origins[pointer] = settings[0]
        self._defaulted.pop(pointer, None)
        written = [each for each in settings if each.whose is None]
        if not written and settings[0].whose is not None:
            self._defaulted[pointer] = Defaulted(pointer, value, settings[0].whose)
        for setting in written:
            self._recognised.setdefault(setting, []).append(Became(pointer, value))

    def default(self, pointer: str, value: Any, whose: str) -> None:
        """Set a field that no setting gives, as whoever is named here has it. The account tells of
        it unless an override takes its place.
        """
        if self.get(pointer) is None:
            self._set(pointer, value)
            self._defaulted[pointer] = Defaulted(pointer, value, whose)

    def get(self, pointer: str) -> Any:
        """The field as it stands; None where it is not set."""
        return at(self.job, pointer)

    def overridden(self, pointer: str) -> Any:
        """The field as the overrides of the launch set it; None where they do not."""
        return at(self._overrides, pointer)

    def settled(self, pointer: str) -> Any:
        """The field as the overrides set it, else as it stands; None where neither does."""
        over = self.overridden(pointer)
        return self.get(pointer) if over is None else over

    def require(self, pointer: str, message: str, setting: Setting | None = None) -> None:
        """Complain, at a setting if there is one, where neither the launch nor its overrides set
        this field. A setting of it that is not known was complained of.
        """
        complained = any(each.settled_by == pointer for each in self._complaints)
        if self.get(pointer) is None and not complained and not settles(self._overrides, pointer):
            unsettled = Complaint(message, settled_by=pointer)
            if setting is not None:
                unsettled = Complaint.at(setting, message, pointer)
            self._complaints.append(unsettled)

    def recognise(self, setting: Setting) -> None:
        """Note a setting that decides memory but changes no field as it stands."""
        if setting.unknown is not None:
            self.complain(setting, setting.unknown)
        elif setting not in self._unsupported and setting.whose is None:
            self._recognised.setdefault(setting, [])

    def ignore(self, setting: Setting) -> None:
        """Note a setting that is known not to change memory."""
        self._recognised.pop(setting, None)
        if setting.whose is None:
            self._irrelevant.append(setting)

    def let_count(self, settings: dict[str, Setting], said: Iterable[tuple[str, Setting]]) -> None:
        """Give each key its setting, one after the other. What one takes the place of, as of a
        file, has no effect: the key's own, those of all keys below it, and one that is written in
        the place of a section that it stands in. A section that becomes null is gone.
        """
        names, lengths = sorted(settings), set(map(len, settings))
        order = {name: turn for turn, name in enumerate(settings)}
        for turn, (key, setting) in enumerate(said, len(order)):
            # "/" is next to "." in the order of signs
            below = names[bisect_left(names, f"{key}.") : bisect_left(names, f"{key}/")]
            above = [
                key[:end]
                for end in lengths
                if key.startswith(".", end)
                and (each := settings.get(key[:end])) is not None
                and each.whose is None
            ]
            own = [key] if key in settings else []
            for name in sorted([*above, *own, *below], key=order.__getitem__):
                self.ignore(settings.pop(name))
                del names[bisect_left(names, name)]
            if setting.value is None and below:
                self.ignore(setting)
                continue
            settings[key] = setting
            order[key] = turn
            insort(names, key)
            lengths.add(len(key))

    def ignore_version(self, version: str | None) -> None:
        """Note that nothing that is read depends on the release of the framework."""
        if version is not None:
            self.ignore(Setting("framework_version", version, "framework_version", None))

    def leave_out(self, setting: Setting, effect: Effect | str) -> None:
        """Note a setting that may change memory in a way that is not modelled; a text says why, and
        that nobody knows what it does. Where that asks for a field that the overrides set, this
        takes its place.
        """
        effect = Effect(effect) if isinstance(effect, str) else effect
        fields = (each for each in asked_for(effect.why) if each.startswith(OVERRIDES))
        if any(settles(self._overrides, each.removeprefix(OVERRIDES)) for each in fields):
            self.ignore(setting)
            return
        self._recognised.pop(setting, None)
        self._unsupported[setting] = effect

    def leave_out_as(self, other: Draft) -> None:
        """Leave out what another reading of the launch has alone left out, in its direction."""
        own = {each.where: each for each in (*self._recognised, *self._unsupported)}
        for setting, effect in other._unsupported.items():
            here = own.get(setting.where, setting)
            if here not in self._unsupported:
                self.leave_out(here, Effect(effect.why, effect.direction, effect.source))

    def complain(self, setting: Setting, message: str, pointer: str | None = None) -> None:
        """Note that a setting is wrong. `close` raises it, with all others.

        Of one whose value is not known, nothing else can be wrong; the field at `pointer` would do
        in its place.
        """
        if setting.unknown is not None:
            self._complain_of_unknown(setting, pointer)
        else:
            self._complain(Complaint.at(setting, message))

    def close(self) -> Account:
        """The account. Raises LaunchError with every complaint."""
        if self._complaints:
            raise LaunchError(*self._complaints)
        return Account(
            recognised=[
                Recognised(each.file, each.line, each.key, _shown(each), became)
                for each, became in self._recognised.items()
                if each not in self._unsupported
            ],
            irrelevant=[Irrelevant(each.file, each.line, each.key) for each in self._irrelevant],
            defaulted=[
                each
                for each in self._defaulted.values()
                if not replaces(self._overrides, each.pointer)
            ],
            unsupported=[
                self._lost(each, effect)
                for each, effect in self._unsupported.items()
                if not self._is_bounded(each, effect)
            ],
            bounded=[
                _bounded(each, effect)
                for each, effect in self._unsupported.items()
                if self._is_bounded(each, effect)
            ],
        )

    def _is_bounded(self, setting: Setting, effect: Effect) -> bool:
        """Whether the bounds take it in; what a caller accepts changes nothing."""
        return effect.is_bounded and not self._accepts(setting)

    def _lost(self, setting: Setting, effect: Effect) -> Unsupported:
        return Unsupported(
            setting.file,
            setting.line,
            setting.key,
            _shown(setting),
            effect.why,
            self._accepts(setting),
            list(asked_for(effect.why)),
            effect.direction,
            effect.source,
        )

    def _complain_of_unknown(self, setting: Setting, pointer: str | None = None) -> None:
        message = f"{setting.value} is not known: {setting.unknown}"
        self._complain(Complaint.at(setting, message, pointer))

    def _complain(self, complaint: Complaint) -> None:
        """Once of each message; one that says what would settle it stands before one that not."""
        same = replace(complaint, settled_by=None)
        if complaint.settled_by is not None and same in self._complaints:
            self._complaints[self._complaints.index(same)] = complaint
        elif not any(replace(each, settled_by=None) == same for each in self._complaints):
            self._complaints.append(complaint)

    def _accepts(self, setting: Setting) -> bool:
        return EVERY_KEY in self._accepted or setting.key in self._accepted

    def _set(self, pointer: str, value: Any) -> None:
        *parents, name = pointer.strip("/").split("/")
        part = self.job
        for parent in parents:
            part = part.setdefault(parent, {})
        part[name] = value


_SECRET = re.compile(r"(token|secret|password|passwd|credential|(api|access)[-_]?key)$", re.I)


def _shown(setting: Setting) -> Any:
    """The value as an account repeats it: not what a key keeps secret, known or not."""
    if _SECRET.search(setting.key):
        return None
    return setting.value if setting.written is None else setting.written


def _bounded(setting: Setting, effect: Effect) -> Bounded:
    return Bounded(
        setting.file,
        setting.line,
        setting.key,
        _shown(setting),
        effect.why,
        effect.direction,
        effect.source,
        [Became(pointer, value) for pointer, value in effect.within.items()],
        effect.bytes,
        effect.share,
        effect.samples,
        effect.apart,
        effect.outside,
    )


class Reading:
    """The settings of one format, under the names that it knows them by, as they are read.

    Every setting is asked for by name; `close` tells of those that nobody asked for. `values` are
    what settings mean where that is not what they say: --no-rope-fusion sets rope fusion to false.
    """

    def __init__(
        self,
        settings: Mapping[str, Setting],
        draft: Draft,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.draft = draft
        self._left = dict(settings)
        self._values = {name: each.value for name, each in settings.items()} | dict(values or {})

    def get(self, key: str) -> Setting | None:
        """A setting that decides memory, if it is given; one that is not known is complained of."""
        setting = self._left.pop(key, None) or self.settings.get(key)
        if setting is not None:
            self.draft.recognise(setting)
        return setting if setting is None or setting.unknown is None else None

    def value(
        self, key: str, default: Any = None, convert: Callable[[Any], Any] | None = None
    ) -> Any:
        """The value of such a setting; the default where it is not given, or cannot be converted,
        which is complained of.
        """
        setting = self.get(key)
        if setting is None:
            return default
        try:
            return self._values[key] if convert is None else convert(self._values[key])
        except ValueError as error:
            self.draft.complain(setting, str(error))
            return default

    def pass_by(self, key: str) -> None:
        """Note a setting, if it is given, as of no effect, as what is said over it counts."""
        setting = self._left.pop(key, None)
        if setting is not None:
            self.draft.ignore(setting)

    def leave_out(self, key: str, effect: Effect) -> None:
        """Note a setting, if it is given, as one that may change memory, whatever it says."""
        self._left.pop(key, None)
        if (setting := self.settings.get(key)) is not None:
            self.draft.leave_out(setting, effect)

    def is_unknown(self, key: str) -> bool:
        """Whether a setting is given and what it says is not known."""
        return key in self.settings and self.settings[key].unknown is not None

    def copy(self, key: str, pointer: str, convert: Callable[[Any], Any] | None = None) -> bool:
        """Set a field to the value of a setting, and tell whether that is given."""
        setting = self._left.pop(key, None) or self.settings.get(key)
        if setting is None:
            return False
        if setting.unknown is not None:
            self.draft.put(pointer, None, setting)
            return True
        self.draft.recognise(setting)
        try:
            value = self._values[key] if convert is None else convert(self._values[key])
        except ValueError as error:
            self.draft.complain(setting, str(error))
        else:
            self.draft.put(pointer, value, setting)
        return True

    def close(
        self,
        keys: Keys,
        idle: Container[str] = (),
        without_effect: Mapping[str, Container[Any]] | None = None,
    ) -> None:
        """Sort out what was not asked for, as the table of the format has it. Others switch `idle`
        keys off; keys `without_effect` change nothing at these values besides.
        """
        for key, setting in self._left.items():
            value = self._values[key]
            changes = key not in idle and value not in (without_effect or {}).get(key, ())
            effect = keys.effect_of(key, value) if changes else None
            if effect is None:
                self.draft.ignore(setting)
            else:
                self.draft.leave_out(setting, effect)
        self._left = {}
