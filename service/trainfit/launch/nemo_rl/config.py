"""NeMo-RL's files over one another, the words over them, and what these refer to.

Source: NVIDIA-NeMo/RL nemo_rl/utils/config.py (load_config, merge_with_override).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dotlist import REFERENCE, assignments, hydra_value
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.missing import not_sent
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.specs.launch import LaunchFile

ALGORITHMS = ("grpo", "dpo", "sft")
OTHERS = ("ppo", "rm", "distillation")
BASES, OF_A_RUN = "defaults", ("checkpointing", "cluster", "data_plane", "loss_fn")
POLICY = "policy"
SECTIONS = ("megatron_cfg", "dtensor_cfg")
PRODUCT = re.compile(r"\$\{mul:\s*(?P<left>[^,]+),\s*(?P<right>.+)\}")
MAX_DEPTH, MAX_REFERENCES = 16, 8
"""Sections within one another, and references through one another, that are followed."""

Settings = dict[str, Setting]


def is_config(file: LaunchFile) -> bool:
    """A policy with an engine, or what lies over another file, which it names by a path."""
    found = mapping_in(file) or {}
    if found.keys().isdisjoint((*ALGORITHMS, *OTHERS, *OF_A_RUN, POLICY)):
        return False
    bases = _bases(file)
    if bases:
        return all(each.endswith((".yaml", ".yml")) for each in bases)
    policy = found.get(POLICY)
    return isinstance(policy, dict) and any(name in policy for name in SECTIONS)


def settings_of_run(program: TrainingProgram, draft: Draft) -> dict[str, Setting]:
    """The keys of the config over those of its bases, and what words say over them, with the values
    of what they refer to. Raises LaunchError.
    """
    words = list(program.arguments)
    named = None
    for at, word in enumerate(words):
        if word.text == "--config" and at + 1 < len(words):
            named = Setting.of("--config", words[at + 1])
            del words[at : at + 2]
            break
        if word.text.startswith("--config="):
            named = Setting.of("--config", word, word.text.partition("=")[2])
            del words[at]
            break
    settings = _layered(program, _file(program, named), {}, ())
    settings.pop(BASES, None)
    draft.let_count(settings, ((each.key, each) for each in assignments(words, hydra_value)))
    return {key: _followed(setting, settings) for key, setting in settings.items()}


def _file(program: TrainingProgram, named: Setting | None) -> LaunchFile:
    """The config that is named; of files alone the one that no other is laid over."""
    if named is not None:
        file = program.file(str(named.value))
        if file is None:
            raise LaunchError(Complaint.at(named, not_sent(str(named.value), named.unknown)))
        return file
    configs = [file for file in program.files.values() if is_config(file)]
    below = {PurePosixPath(base).name for file in configs for base in _bases(file)}
    tops = [file for file in configs if PurePosixPath(file.path).name not in below]
    if len(tops) != 1:
        paths = ", ".join(file.path for file in tops or configs)
        raise LaunchError(Complaint(f"send one config of NeMo-RL and its bases, not {paths}"))
    return tops[0]


def _bases(file: LaunchFile) -> list[str]:
    bases = (mapping_in(file, BASES) or {}).get(BASES)
    listed = [bases] if isinstance(bases, str) else bases if isinstance(bases, list) else []
    return [str(each) for each in listed]


def _layered(
    program: TrainingProgram, file: LaunchFile, made: dict[str, Settings], above: tuple[str, ...]
) -> Settings:
    """Keys of a file over those of the files that it names, each of which is `made` once."""
    own = settings_of(document_of(file, ".yaml"), file.path)
    whole: Settings = {}
    above = (*above, file.path)
    for base in reversed(dict.fromkeys(reversed(_bases(file)))):
        at = own.get(BASES) or Setting(BASES, base, file.path, None)
        found = program.file(base)
        if found is None:
            raise LaunchError(Complaint.at(at, not_sent(base, None)))
        if found.path in above:
            raise LaunchError(Complaint.at(at, f"{found.path} is laid over itself"))
        if found.path not in made:
            made[found.path] = _layered(program, found, made, above)
        whole = _over(whole, made[found.path])
    return _over(whole, own)


def _over(below: Settings, above: Settings) -> Settings:
    """A mapping lies over a mapping, and anything else takes the place of what was there
    (utils/config.py: merge_with_override).
    """
    placed = {key for key, setting in above.items() if setting.value != {}}
    kept = {key: each for key, each in below.items() if placed.isdisjoint(_sections(key))}
    whole = kept | above
    sections = {section for key in whole for section in _sections(key)}
    return {key: each for key, each in whole.items() if key not in sections}


def _sections(key: str) -> Iterator[str]:
    """The sections that a key lies in, from the outermost in."""
    return accumulate(key.split(".", MAX_DEPTH)[:-1], "{}.{}".format)


def _followed(setting: Setting, settings: Mapping[str, Setting]) -> Setting:
    """A setting with the value of what it refers to."""
    value = _value(setting.value, settings, 0)
    return setting if value is setting.value else replace(setting, value=value)


def _value(value: Any, settings: Mapping[str, Setting], depth: int) -> Any:
    if not isinstance(value, str) or "${" not in value or depth > MAX_REFERENCES:
        return value
    if found := REFERENCE.fullmatch(value):
        other = settings.get(found["key"])
        return value if other is None else _value(other.value, settings, depth + 1)
    if found := PRODUCT.fullmatch(value):
        sides = [_value(found[side].strip(), settings, depth + 1) for side in ("left", "right")]
        try:
            return int(sides[0]) * int(sides[1])
        except (TypeError, ValueError):
            return value
    return value
