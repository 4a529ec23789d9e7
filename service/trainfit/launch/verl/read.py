"""A launch of verl's PPO trainer -> a draft of the job that updates its actor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainfit.launch.allocator import read_allocator
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dotlist import added_key, assignments, hydra_value, values_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.models import put_model, settle_names
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import whole
from trainfit.launch.verl import megatron, sft
from trainfit.launch.verl.beside import RESERVED, leave_out_beside
from trainfit.launch.verl.keys import ACTOR, FIRST, LATEST, MODEL, OPTIMIZER
from trainfit.launch.verl.layout import SAMPLE, put_gpus, read_batch, read_layout
from trainfit.launch.verl.releases import release_named, release_of
from trainfit.launch.verl.scoring import bound_scoring, read_scoring
from trainfit.launch.verl.step import (
    read_loss,
    read_megatrons_loss,
    read_optimizer,
    read_precision,
    read_recompute,
)
from trainfit.specs.launch import LaunchFile

TRAINER = re.compile(r"(.*[./])?verl[./]trainer[./](?P<name>\w+?)(\.py)?|main_ppo(\.py)?")
PPO = "main_ppo"
SECTION = "actor_rollout_ref"
ENGINE = "model_engine"
ENGINES = ("dp", "megatron")


def recognises(program: TrainingProgram) -> bool:
    """By its module; files by the actor in them, or the model of the older trainer on samples."""
    if program.name is None:
        return any(_is_config(file) for file in program.files.values())
    return TRAINER.fullmatch(program.name) is not None


def _is_config(file: LaunchFile) -> bool:
    return SECTION in (mapping_in(file, SECTION) or ()) or sft.is_config(file)


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Read a launch as the release of this name takes it; unset: the one that its keys are of."""
    trainer = _trainer(program)
    file, words, named = _config(program)
    settings = _settings(file, list(assignments(words, hydra_value)), draft)
    added = {key for word in words if (key := added_key(word)) is not None}
    known = release_named(version) if version is not None else None
    settle_names(settings, (f"{MODEL}.path", *sft.MODEL_PATHS), draft)
    if trainer in sft.TRAINERS:
        if trainer == sft.OLDER and known is None:
            known = release_of(settings, added, draft, sft.ALIKE, sft.TOGETHER)
        actor = sft.as_actor(settings, program, draft, trainer, known)
        _read_fsdp(actor, program, draft, known or LATEST, alone=trainer)
        return
    release = known or release_of(settings, added, draft) or LATEST
    chosen = _engine(settings) or settings.get(f"{ACTOR}.strategy", named)
    if chosen is not None and (chosen is named or chosen.value == "megatron"):
        _read_megatron(settings, chosen, program, draft, release)
    else:
        _read_fsdp(settings, program, draft, release)


def _engine(settings: Mapping[str, Setting]) -> Setting | None:
    """What chooses the engine of all models at once. Raises LaunchError for one that is not read.
    Source: verl/trainer/config/model_engine.
    """
    setting = settings.get(ENGINE)
    if setting is not None and setting.value not in ENGINES:
        message = f"of verl's engines {' and '.join(ENGINES)} are read"
        raise LaunchError(Complaint.at(setting, message))
    return setting


def _read_fsdp(
    settings: Mapping[str, Setting],
    program: TrainingProgram,
    draft: Draft,
    release: str,
    *,
    alone: str | None = None,
) -> None:
    """The actor under FSDP, or what a trainer that is `alone` trains as it, with nothing beside."""
    reading = Reading(settings, draft, values_of(settings))
    reading.get(ENGINE)
    whose = f"verl {release}"
    draft.default("/framework/name", "transformers", whose)
    draft.default("/framework/sync_each_micro_batch", True, whose)
    _model(reading, draft, program, whose)
    sp = read_layout(reading, draft, whose)
    sample = sft.SAMPLE if alone else SAMPLE
    read_batch(reading, draft, whose, sample, sequence_ranks=sp, replica_ranks=sp)
    read_precision(reading, draft, whose)
    read_optimizer(reading, draft)
    keeps = sft.KEEPS_LAYERS if alone == sft.OLDER else (FIRST,)
    read_recompute(reading, draft, release, usual=alone == sft.TRAINER or release not in keeps)
    if alone == sft.OLDER:
        sft.put_older_loss(reading, draft)
    else:
        read_loss(reading, draft, release, alone=alone is not None)
    if not alone:
        read_scoring(reading, draft, sp)
        leave_out_beside(reading, draft, sp)
    _segments(program, draft)
    keys = table_of(__package__, "sft") if alone else table_of(__package__)
    reading.close(keys, _targets(settings))


def _read_megatron(
    settings: Mapping[str, Setting],
    chosen: Setting,
    program: TrainingProgram,
    draft: Draft,
    release: str,
) -> None:
    """Keys of the engine are Megatron's; batches, the loss and what shares the card are verl's."""
    if release != LATEST:
        message = f"verl's Megatron actor is read as {LATEST} has it"
        raise LaunchError(Complaint(f"framework_version: {message}"))
    whose = f"verl {release}"
    engine = {key: each for key, each in settings.items() if megatron.is_argument(key)}
    others = {key: each for key, each in settings.items() if key not in engine}
    reading = Reading(others, draft, values_of(others))
    reading.get(f"{ACTOR}.strategy")
    reading.get(ENGINE)
    _put_model(reading, draft, program)
    put_gpus(reading, draft, whose)
    sequence, replica = megatron.ranks(engine)
    read_batch(reading, draft, whose, SAMPLE, sequence_ranks=sequence, replica_ranks=replica)
    if (optimizer := reading.get(f"{OPTIMIZER}.optimizer")) is not None:
        engine[f"{OPTIMIZER}.optimizer"] = optimizer
    megatron.read_engine(engine, chosen, draft, whose)
    read_megatrons_loss(reading, draft, whose)
    bound_scoring(reading, draft, sequence)
    if draft.overridden(RESERVED) is None:
        megatron.keep_reference(reading, draft)
    leave_out_beside(reading, draft, sequence)
    _segments(program, draft)
    reading.close(table_of(__package__) | table_of(__package__, "megatron"), _targets(others))


def _targets(settings: Mapping[str, Setting]) -> set[str]:
    """Keys that name the dataclass of a section."""
    return {key for key in settings if key.endswith("._target_")}


def _segments(program: TrainingProgram, draft: Draft) -> None:
    if program.name is not None:
        read_allocator(program.environment, draft)
    draft.default("/framework/expandable_segments", False, "PyTorch")


def _trainer(program: TrainingProgram) -> str:
    """The trainer that is started; of files alone the one that has their keys. Raises LaunchError
    for another.
    """
    if program.name is None and any(map(sft.is_config, program.files.values())):
        return sft.OLDER
    found = TRAINER.fullmatch(program.name) if program.name is not None else None
    name = (found["name"] if found is not None else None) or PPO
    if name not in (PPO, *sft.TRAINERS):
        read = f"{PPO}, {' and '.join(sft.TRAINERS)}"
        message = f"verl's trainer {name} is not read; {read} are"
        raise LaunchError(Complaint(message))
    return name


def _config(program: TrainingProgram) -> tuple[LaunchFile | None, Sequence[Word], Setting | None]:
    """The YAML file that was sent, the words over it, and what names verl's own config of the
    Megatron actor, which Hydra's options may.
    """
    words, rest = list(program.arguments), []
    named = None
    while words:
        word = words.pop(0)
        if not word.text.startswith("-"):
            rest.append(word)
            continue
        option, equals, value = word.text.partition("=")
        if not equals and words:
            value = words.pop(0).text
        if option in ("--config-name", "-cn") and "megatron" in value:
            named = Setting(option, value, word.file, word.line)
    files = [file for file in program.files.values() if _is_config(file)]
    if len(files) > 1:
        paths = ", ".join(file.path for file in files)
        raise LaunchError(Complaint(f"send one config of verl, not {paths}"))
    return (files[0] if files else None), rest, named


def _settings(
    file: LaunchFile | None, overrides: Sequence[Setting], draft: Draft
) -> dict[str, Setting]:
    found = settings_of(document_of(file, ".yaml"), file.path) if file is not None else {}
    draft.let_count(found, ((each.key, each) for each in overrides))
    return found


def _put_model(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    if draft.overridden("/model") is not None:
        reading.pass_by(f"{MODEL}.path")
    else:
        path = reading.get(f"{MODEL}.path")
        if path is not None:
            put_model(draft, program, path)
        draft.require("/model", f"{MODEL}.path names no model; give /model in overrides", path)


def _model(reading: Reading, draft: Draft, program: TrainingProgram, whose: str) -> None:
    _put_model(reading, draft, program)
    rank_key, target_key = f"{MODEL}.lora_rank", f"{MODEL}.target_modules"
    targets = reading.get(target_key)
    if not reading.value(rank_key, 0, whole):
        return
    rank = reading.get(rank_key)
    assert rank is not None
    draft.put("/training/peft/method", "lora", rank)
    reading.copy(rank_key, "/training/peft/r")
    if targets is None or not reading.copy(target_key, "/training/peft/target_modules"):
        draft.default("/training/peft/target_modules", "all-linear", whose)
