"""What public scripts of Trainer call their own arguments, and what they do where these are absent.

A row of `scripts.json` names the programs, `marks` of which the launch has to have one, or what it
says `when` it is theirs, and their `source`. `same` are other names of arguments, `means` arguments
that stand for others at each value, `sums` those that are added up, `none` those that change no
memory, `needs` those that change none without another, `defaults` the values of what is not given,
`effects` what is bounded of what one does besides, `kind` its loop, where that is not Trainer's,
and `loop` the argument that says which. `configs` are DeepSpeed's that come with it, by their
paths, and `otherwise` fields of a job that those of its forks and older releases set higher.
`alone` is the variable without which one process runs, which lays its model over all cards that it
sees. `ranks` are arguments whose product is the number of GPUs; one that is a list counts as its
sum. `variants` are other scripts with the same arguments, by what differs.
Defaults below one of `sections` hold where nothing below it is given, and effects but at values in
`unless`. An argument that begins with `accelerate.` is one of accelerate's launcher.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from trainfit.launch.deepspeed.beside import Beside
from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import Kind
from trainfit.launch.transformers.source import as_bool, as_int
from trainfit.launch.values import scalar

Arguments = dict[str, Setting]
CONFIG = "config."
"""Before the names of arguments that are keys of a config.json."""
ANY = "*"
"""Any other value of an argument, and what stands for it."""


@dataclass(frozen=True, slots=True)
class KnownScript:
    """A script that is known by its program, and what its arguments mean."""

    program: str
    source: str
    command: str | None = None
    marks: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    none: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    effects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kind: Kind = "trainer"
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    otherwise: Mapping[str, Any] = field(default_factory=dict)
    when: Mapping[str, str] = field(default_factory=dict)
    loop: str | None = None
    alone: str | None = None
    ranks: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()

    @property
    def beside(self) -> Beside:
        """DeepSpeed's configs that come with it."""
        return Beside(self.source, self.configs, self.otherwise)

    def is_run_by(self, program: TrainingProgram, arguments: Collection[str]) -> bool:
        """Whether a program with these arguments is this script."""
        name = program.name or ""
        named = name.rpartition("/")[2] in self.program.split()
        if self.command is not None:
            first = program.arguments[0].text if program.arguments else None
            module = f"{self.program}.cli.{self.command}"
            runs = name == module or (named and first == self.command)
            return runs and self._has_values(arguments)
        return named and any(mark in arguments for mark in self.marks)

    def _has_values(self, arguments: Collection[str]) -> bool:
        """Whether the arguments say what they have to, or leave it to a default that does."""
        values = arguments if isinstance(arguments, Mapping) else {}
        said = {name: values[name].value for name in self.when if name in values}
        return all(said.get(name, self.defaults.get(name)) == self.when[name] for name in self.when)


def script_of(program: TrainingProgram, arguments: Arguments) -> KnownScript | None:
    """The script that a program is, if it is known."""
    return next((each for each in _scripts() if each.is_run_by(program, arguments)), None)


def is_script(program: TrainingProgram, names: Iterable[str]) -> bool:
    """Whether a program with arguments of these names is a script that is known."""
    return any(each.is_run_by(program, frozenset(names)) for each in _scripts())


LAID_OVER = (
    "a process lays the layers of the model over all cards that are its own (device_map auto), as "
    "{} {}: at most what one card alone needs"
)


def ranked(
    script: KnownScript, program: TrainingProgram, arguments: Arguments, draft: Draft
) -> TrainingProgram:
    """The program on as many GPUs as its arguments say, or on one, where its script starts one
    process.
    """
    counts = tuple([_summed(arguments.pop(name)) for name in script.ranks if name in arguments])
    return replace(program, num_gpus=counts) if counts else _alone(script, program, draft)


def _summed(setting: Setting) -> Setting:
    """A number of GPUs, in the place of a list of those of each node."""
    if not isinstance(setting.value, list):
        return setting
    numbers = [as_int(each) for each in setting.value]
    return replace(setting, value=None if None in numbers else sum(each or 0 for each in numbers))


def _alone(script: KnownScript, program: TrainingProgram, draft: Draft) -> TrainingProgram:
    if script.alone is None or program.num_gpus:
        return program
    started = program.environment.get(script.alone)
    if started is None and "NNODES" in program.environment:
        return program
    one = Setting(script.alone, 1, "env", None, whose=script.source)
    _lay_over_cards(script, program, started or one, draft)
    return replace(program, num_gpus=(one,)) if started is None else program


def _lay_over_cards(
    script: KnownScript, program: TrainingProgram, processes: Setting, draft: Draft
) -> None:
    """Leave out that a process has several cards: twice as many as processes are seen, or where
    one starts alone it is not said how many.
    """
    alone, visible = processes.whose is not None, program.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or visible.unknown is not None:
        several = alone
    else:
        several = len(str(visible.value).split(",")) >= 2 * (as_int(processes.value) or 1)
    if several:
        why = LAID_OVER.format(script.alone, "is not set" if alone else "is below their number")
        effect = Effect(why, "lowers", script.source)
        draft.leave_out(visible or replace(processes, value=None, whose=None), effect)


def translated(script: KnownScript, arguments: Arguments, draft: Draft) -> Arguments:
    """The arguments of a script under the names that Trainer and TRL have for them."""
    given = {script.same.get(name, name): each for name, each in arguments.items()}
    said = tuple(each for each in script.sections if any(name.startswith(each) for name in given))
    for name, value in script.defaults.items():
        if name.startswith(said):
            continue
        key = script.same.get(name, name)
        given.setdefault(key, Setting(name, value, script.source, None, whose=script.source))
    for name in script.none.split():
        below = [each for each in given if name.endswith(".") and each.startswith(name)]
        for each in [name, *below]:
            if each in given:
                draft.ignore(given.pop(each))
    for name, other in script.needs.items():
        if name in given and other not in given:
            draft.ignore(given.pop(name))
    written = dict(given)
    for name, parts in script.sums.items():
        given |= _added_up(name, parts, given, draft)
    for name, values in script.means.items():
        if name in given:
            meant = dict(_meant(given.pop(name), values, draft))
            for key in meant.keys() & given.keys():
                draft.recognise(given[key])
            given |= meant
    for name, effect in script.effects.items():
        setting = written.get(name) or given.get(name)
        known = dict(effect)
        idle = known.pop("unless", ())
        if setting is not None and setting.value is not None and setting.value not in idle:
            own = replace(setting, whose=None)
            draft.leave_out(own, Effect(source=script.source, **known))
    _put_config(given, draft)
    return given


def _put_config(given: Arguments, draft: Draft) -> None:
    """Set the model of a script that makes a config.json of its arguments."""
    parts = {name: given.pop(name) for name in [*given] if name.startswith(CONFIG)}
    if parts:
        values = {name.removeprefix(CONFIG): each.value for name, each in parts.items()}
        values |= {key: scalar(text) for key, text in values.items() if isinstance(text, str)}
        draft.put("/model/hf_config", values, *parts.values())


def _added_up(name: str, parts: tuple[str, ...], given: Arguments, draft: Draft) -> Arguments:
    """One argument in the place of those that it is the sum of."""
    settings = [given.pop(each) for each in parts]
    numbers = [as_int(each.value) for each in settings]
    first = next((each for each in settings if each.line is not None), settings[0])
    for setting, number in zip(settings, numbers, strict=True):
        if number is None:
            draft.complain(setting, f"{setting.value!r} is no whole number")
        elif setting is not first:
            draft.recognise(setting)
    total = sum(each or 0 for each in numbers)
    return {name: replace(first, value=total, written=first.value)}


def _meant(
    setting: Setting, values: Mapping[str, Mapping[str, Any]], draft: Draft
) -> Iterator[tuple[str, Setting]]:
    """The arguments that one stands for."""
    switch = as_bool(setting.value) if {"true", "false"} & values.keys() else None
    value = str(setting.value) if switch is None else str(switch).lower()
    if value not in values and ANY in values:
        value = ANY
    if setting.unknown is None and value not in values:
        draft.leave_out(setting, f"what other values than {' and '.join(values)} do is not known")
        return
    if setting.unknown is not None or not values[value]:
        draft.recognise(setting)
        return
    for name, meant in values[value].items():
        said = setting.value if meant == ANY else meant
        yield name, replace(setting, value=said, written=setting.value)


@cache
def _scripts() -> tuple[KnownScript, ...]:
    rows = json.loads((files(__package__) / "scripts.json").read_text("utf-8"))["scripts"]
    return tuple(KnownScript(**each) for row in rows for each in _with_variants(row))


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """What a variant takes back of a row is null there."""
    return {name: value for name, value in values.items() if value is not None}


MERGED = ("defaults", "same", "means", "effects")
"""What a variant says besides."""


def _with_variants(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row, and other scripts that take its arguments: what one says itself counts, and what it
    knows of no effect is added.
    """
    variants = row.pop("variants", ())
    yield row
    for each in variants:
        merged = {name: _without_nulls(row.get(name, {}) | each.get(name, {})) for name in MERGED}
        yield row | each | merged | {"none": f"{row['none']} {each['none']}"}
