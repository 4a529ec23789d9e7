"""Megatron-Bridge: a ConfigContainer in YAML, and overrides of one on a command line.

A section of the container holds fields of one of Megatron's dataclasses. Overrides of a recipe say
only what differs from it; a recipe that is known by its name says the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainfit.launch.documents import document_of
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.megatron import bridge_adapters, bridge_recipes
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.bridge_names import (
    DIFFERING,
    FIELDS,
    FILE_OPTIONS,
    FREEZES,
    IN_SYNC,
    IRRELEVANT_DATASET,
    IRRELEVANT_OPTIONS,
    IRRELEVANT_PARTS,
    IRRELEVANT_SECTIONS,
    MODEL_IDS,
    OF_A_BRIDGE,
    OF_TOWERS,
    OPTIONS,
    PRECISIONS,
    RECIPE_OPTIONS,
    SECTIONS,
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_SECTIONS,
    USUAL_SPECS,
)
from trainfit.launch.megatron.configs import (
    Field,
    demand_dimensions,
    is_argument,
    reading_of,
    without_idle_recompute,
)
from trainfit.launch.megatron.hydra import is_override, overrides_of
from trainfit.launch.megatron.nemo import is_nemo, read_nemo
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.megatron.programs import read_machine
from trainfit.launch.megatron.serialised import TARGET, folded
from trainfit.launch.megatron.stacks import NEMO, bridges, put_stack
from trainfit.launch.models import config_of, has_tower
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.specs.launch import LaunchFile

SAVED = "model._target_"
"""What a container that was saved has, and overrides of a recipe have not."""
RUN_RECIPE = "run_recipe.py"
PRECISION = "mixed_precision"
VARIABLES = "env_vars."
SPEC = "model.transformer_layer_spec"
UNKNOWN_RECIPE = (
    "no recipe of this name is known, or of its mode; a recipe is a program, and what only it says "
    "is not read"
)
OVERRIDES_ONLY = (
    "these are overrides of a recipe, which is a program and is not read: precision, sharding, "
    "layout and what else they do not say is the recipe's; send the run_config.yaml that "
    "Megatron-Bridge saves with a checkpoint"
)
_TOP = re.compile(r"^(\w+):", re.MULTILINE)
_SECTION = re.compile(r"^model:[ \t]*(\{.*|#.*)?$", re.MULTILINE)
_KEY = re.compile(r"[ {](\w+):")
_OF_LAYERS = frozenset(
    (
        "encoder_seq_length",
        "hidden_size",
        "num_layers",
        "restore_from_path",
        "tensor_model_parallel_size",
    )
)
"""Keys of a model of NeMo's that Megatron builds, of which others, for speech say, have none."""
_OF_OTHERS = ("trust_remote_code",)
"""Arguments that a model has in other programs as well."""


def recognises(program: TrainingProgram) -> bool:
    """By overrides of its fields on the command line, or by the sections of a file."""
    keys = [word.text.lstrip("+~") for word in program.arguments if is_override(word.text)]
    if any(_is_field(key.partition("=")[0]) for key in keys):
        return True
    options = {word.text.partition("=")[0] for word in program.arguments}
    if program.name == RUN_RECIPE and not options.isdisjoint(RECIPE_OPTIONS):
        return True
    return program.name in (None, RUN_RECIPE) and _files(program) != []


def _is_field(key: str) -> bool:
    """Whether this is the key of an argument in one of the sections that others have not."""
    section, _, name = key.partition(".")
    known = is_argument(name) and name not in _OF_OTHERS
    return section in ("model", "train", "ddp", "dist") and known


def _files(program: TrainingProgram) -> list[LaunchFile]:
    """Files with a section of the model beside one of training."""
    return [file for file in program.files.values() if _is_config(file.content)]


def _is_config(content: str) -> bool:
    tops = set(_TOP.findall(content))
    if _SECTION.search(content) is None or "actor" in tops:
        return False
    if tops & {"train", "ddp", "mixed_precision"}:
        return True
    return "trainer" in tops and not _OF_LAYERS.isdisjoint(_KEY.findall(content))


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Put a container, with its overrides, into a draft; a release of Megatron-Bridge decides what
    its recipes are. Raises LaunchError.
    """
    paths, words, options = _sort(program, draft)
    recipe, release = bridge_recipes.settings_of(options, draft, version)
    if not recipe:
        draft.ignore_version(version)
        for option in options.values():
            draft.leave_out(option, UNKNOWN_RECIPE)
    files = [_file(program, path) for path in paths] or _files(program)
    _refuse_several(files, paths[-1] if paths else None)
    settings: dict[str, Setting] = {**recipe}
    for file in files:
        settings |= folded(settings_of(document_of(file, ".yaml"), file.path), draft)
    if not settings and not words:
        for option in options.values():
            raise LaunchError(Complaint.at(option, UNKNOWN_RECIPE))
        raise LaunchError(Complaint("holds no config of Megatron-Bridge or NeMo"))
    draft.let_count(settings, overrides_of(words, draft))
    program = _with_environment(program, settings)
    if is_nemo(settings):
        read_nemo(settings, draft)
        put_stack(draft, NEMO, "NeMo")
    else:
        _read_container(settings, draft, names_recipe=bool(options))
        put_stack(draft, bridges(version or release), "Megatron-Bridge")
    if draft.get("/parallelism/num_gpus") is None:
        read_machine(program, draft)


def _with_environment(program: TrainingProgram, settings: dict[str, Setting]) -> TrainingProgram:
    """The program with the variables that a container sets, which are taken out of its settings:
    those that are set already stay (docs/recipe-usage.md).
    """
    keys = [key for key in settings if key.startswith(VARIABLES)]
    own = {key.removeprefix(VARIABLES): settings.pop(key) for key in keys}
    return replace(program, environment={**own, **program.environment})


def _sort(
    program: TrainingProgram, draft: Draft
) -> tuple[list[Word], list[Word], dict[str, Setting]]:
    """The files that a command line names, the overrides on it, and what names a recipe."""
    paths: list[Word] = []
    recipe: dict[str, Setting] = {}
    overrides: list[Word] = []
    words = list(program.arguments)
    while words:
        word = words.pop(0)
        if is_override(word.text):
            overrides.append(word)
            continue
        name, equals, inline = word.text.partition("=")
        value = replace(word, text=inline) if equals else None
        if not equals and words and _is_value(words[0]):
            value = words.pop(0)
        unknown = None if value is None else value.unknown
        said = None if value is None else value.text
        setting = Setting(name, said, word.file, word.line, unknown)
        if name in FILE_OPTIONS and value is not None:
            draft.recognise(setting)
            paths.append(value)
        elif name == "--config-name" and value is not None:
            _name_config(program, value, setting, paths, draft)
        elif name in OPTIONS and value is not None:
            overrides.append(replace(value, text=f"{OPTIONS[name]}={value.text}"))
        elif name in RECIPE_OPTIONS:
            recipe[name] = setting
        elif name in IRRELEVANT_OPTIONS:
            draft.ignore(setting)
        else:
            draft.leave_out(setting, "no list of this format has this option")
    return paths, overrides, recipe


def _name_config(
    program: TrainingProgram, value: Word, setting: Setting, paths: list[Word], draft: Draft
) -> None:
    """Hydra's base of all overrides, which may be left out where these say everything."""
    name = value.text.removesuffix(".yaml") + ".yaml"
    if program.file(name) is None:
        draft.leave_out(setting, f"{name} was not sent; what only it says is not read")
    else:
        draft.recognise(setting)
        paths.append(replace(value, text=name))


def _is_value(word: Word) -> bool:
    return not word.text.startswith("-") and not is_override(word.text)


def _file(program: TrainingProgram, path: Word) -> LaunchFile:
    if (file := program.file(path.text)) is None:
        raise LaunchError(Complaint(f"{path.text}: this file was not sent", path.file, path.line))
    return file


def _refuse_several(files: Sequence[LaunchFile], named: Word | None) -> None:
    """Raise LaunchError where more than one file could be the config, or is named as it."""
    if len(paths := dict.fromkeys(each.path for each in files)) > 1:
        message = f"which config is meant, {' or '.join(paths)}? One is read: name it, or send one"
        file, line = (None, None) if named is None else (named.file, named.line)
        raise LaunchError(Complaint(message, file, line))


def _read_container(settings: Mapping[str, Setting], draft: Draft, *, names_recipe: bool) -> None:
    defaults = MegatronParser(None).defaults()
    ordered = _precision_last(_in_sync(settings, draft))
    fields = list(without_idle_recompute(_fields(ordered, draft), draft))
    if bridge_adapters.adapts(settings):
        bridge_adapters.put_adapters(settings, draft)
    demand_dimensions(fields, draft, "a recipe")
    made = OF_A_BRIDGE if settings.keys() & set(MODEL_IDS) else {}
    bridge = Defaults("Megatron-Bridge", {**defaults.values, **DIFFERING, **made}, None)
    if settings and SAVED not in settings and not names_recipe:
        _leave_out_recipe(settings, draft)
    read_arguments(reading_of(fields, draft), bridge)


def _leave_out_recipe(settings: Mapping[str, Setting], draft: Draft) -> None:
    """Note that what is given is overrides, as a container that was saved names the class of its
    model; what they do not say is then that of a recipe.
    """
    given = sorted({key.partition(".")[0] for key in settings})
    first = next(iter(settings.values()))
    setting = Setting("recipe", given, first.file, None if first.line is None else 1)
    draft.leave_out(setting, OVERRIDES_ONLY)


def _in_sync(settings: Mapping[str, Setting], draft: Draft) -> dict[str, Setting]:
    """Settings without a false that another section's true replaces
    (_validate_and_sync_distributed_optimizer_settings).
    """
    kept = dict(settings)
    for name, sections in IN_SYNC.items():
        keys = [key for section in sections if (key := f"{section}.{name}") in settings]
        if any(settings[key].value is True for key in keys):
            for key in keys:
                if settings[key].value is False:
                    draft.ignore(kept.pop(key))
    return kept


def _precision_last(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings with those of mixed precision last: what it says replaces what the model, the
    optimizer and ddp say of the same (update_config_with_precision_overrides).
    """
    last = {key: each for key, each in settings.items() if key.partition(".")[0] == PRECISION}
    return {key: each for key, each in settings.items() if key not in last} | last


def _fields(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """Settings under the names of fields; those of sections that do not matter are sorted out."""
    sees = _put_model(settings, draft)
    for key, setting in settings.items():
        section, _, name = key.partition(".")
        if key in FREEZES or (sees and key.startswith(OF_TOWERS)):
            (draft.recognise if key in FREEZES else draft.ignore)(setting)
        elif key in MODEL_IDS:
            continue
        elif key in FIELDS:
            yield Field(FIELDS[key], setting, setting.value)
        elif why := next(
            (why for field, why in UNSUPPORTED_FIELDS.items() if key.startswith(field)), None
        ):
            draft.leave_out(setting, why)
        elif section == bridge_adapters.SECTION and bridge_adapters.adapts(settings):
            continue
        elif _is_irrelevant(key, setting.value):
            draft.ignore(setting)
        elif section in UNSUPPORTED_SECTIONS:
            draft.leave_out(setting, UNSUPPORTED_SECTIONS[section])
        elif key == PRECISION:
            yield from _precision(setting, draft)
        elif key == f"{PRECISION}.fp32":
            draft.recognise(setting)
        elif key == SPEC and str(setting.value) in USUAL_SPECS:
            draft.ignore(setting)
        elif section in SECTIONS and "." in name:
            part = key.rpartition(".")[0]
            draft.leave_out(setting, f"{part} is a part of its own, which is not read")
        elif section in SECTIONS:
            yield Field(name, setting, setting.value)
        else:
            draft.leave_out(setting, "no list of this format has this key")


def _put_model(settings: Mapping[str, Setting], draft: Draft) -> bool:
    """Set the model of the Hub, and what of it is frozen where it sees or hears, which is told."""
    for key in MODEL_IDS:
        if key in settings:
            draft.put("/model/hf_id", settings[key].value, settings[key])
    sees = has_tower(config_of(draft))
    said = {key: each for key in FREEZES if (each := settings.get(key)) and each.value is True}
    if said and sees:
        draft.put("/training/frozen", sorted({FREEZES[key] for key in said}), *said.values())
    for setting in said.values() if said and not sees else ():
        draft.leave_out(setting, "which parts the model has is not known")
    return sees


def _is_irrelevant(key: str, value: Any) -> bool:
    """Whether a key is known not to matter; a section that is null is not there."""
    section, _, name = key.partition(".")
    if section == "dataset":
        return name.partition(".")[0] in IRRELEVANT_DATASET
    if value is None and key in ("comm_overlap", *UNSUPPORTED_SECTIONS):
        return True
    return section in IRRELEVANT_SECTIONS or name == TARGET or key.startswith(IRRELEVANT_PARTS)


def _precision(setting: Setting, draft: Draft) -> Iterator[Field]:
    """A recipe of mixed precision by its name, as the fields that it sets."""
    if setting.value is None:
        draft.ignore(setting)
        return
    name = str(setting.value).rpartition(".")[2].replace("-", "_")
    if name not in PRECISIONS:
        draft.leave_out(setting, "this recipe of mixed precision is not modelled")
        return
    for field, value in PRECISIONS[name].items():
        yield Field(field, setting, value)
