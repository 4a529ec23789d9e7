"""A config of litgpt -> a draft of a job. Its modules are priced as transformers'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.allocator import read_allocator_of
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.models import experts_of, is_overridden, put_model
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, leaves_of, settings_of
from trainfit.launch.transformers.command_line import FlagWords, flags_of
from trainfit.launch.values import flag, scalar, size, word
from trainfit.specs.launch import LaunchFile

WHOSE = "litgpt"
CHECKPOINT = "checkpoint_dir"
OWN_KEYS = (CHECKPOINT, "train")
COMMANDS = ("finetune", "finetune_full", "finetune_lora")
FULL, LORA = "finetune_full", "finetune_lora"
NUM_GPUS = "/parallelism/num_gpus"
PEFT = "/training/peft"
PRECISION = "/training/precision"
OPTIMIZER = "/training/optimizer"

MODULES: Mapping[str, tuple[str, ...]] = {
    "lora_query": ("q_proj",),
    "lora_key": ("k_proj",),
    "lora_value": ("v_proj",),
    "lora_projection": ("o_proj",),
    "lora_mlp": ("gate_proj", "up_proj", "down_proj"),
    "lora_head": ("lm_head",),
}
"""Switches of adapters -> transformers' names of what they adapt."""
ADAPTED = ("lora_query", "lora_value")
"""Those that are on where nothing says otherwise."""
QUANTISED = {"bnb.nf4": ("nf4", False), "bnb.nf4-dq": ("nf4", True)}


def recognises(program: TrainingProgram) -> bool:
    """By its command, or by a config with litgpt's own keys."""
    if program.name == WHOSE:
        return bool(program.arguments) and program.arguments[0].text in COMMANDS
    return program.name is None and any(_is_config(file) for file in program.files.values())


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, OWN_KEYS[0]) or {}
    train = found.get("train")
    return isinstance(train, dict) and OWN_KEYS[0] in found and "micro_batch_size" in train


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them."""
    draft.ignore_version(version)
    settings = _settings(program, draft)
    reading = Reading(settings, draft)
    command = _command(program, settings)
    draft.default("/framework/name", "transformers", WHOSE)
    draft.default("/training/attention/repeats_kv", True, WHOSE)
    _model(reading, draft, program)
    ranks = _share_out(reading, draft, command)
    _batch(reading, draft)
    bits = _adapters(reading, draft) if command == LORA else False
    _precision(reading, draft, ranks)
    _optimizer(reading, draft, paged=bits)
    _loss(draft, settings)
    read_allocator_of(program, draft)
    reading.close(table_of(__package__))


def _settings(program: TrainingProgram, draft: Draft) -> dict[str, Setting]:
    """What the file and the command line say; of both what stands later counts, as jsonargparse
    has it. An option has one value, and a word without an option is the checkpoint. Raises
    LaunchError.
    """
    flags, positional = flags_of(program.arguments)
    alone = _the_file(program)
    found = {} if alone is None else settings_of(document_of(alone, ".yaml"), alone.path)
    said = [Setting.of(CHECKPOINT, model) for model in positional[1:]]
    for each in flags:
        said += _said_by(each, program)
        said += (Setting.of(CHECKPOINT, model) for model in each.values[1:])
    draft.let_count(found, ((each.key, each) for each in said))
    if (given := found.get(CHECKPOINT)) is not None:
        name = str(given.value).removeprefix("./").removeprefix("checkpoints/").rstrip("/")
        found[CHECKPOINT] = replace(given, value=name, written=given.value)
    return found


def _said_by(flag: FlagWords, program: TrainingProgram) -> Iterator[Setting]:
    """What an option sets: its key, or all keys of the file that it names. Raises LaunchError."""
    if flag.name == "config" and flag.values:
        named = flag.values[0].text
        if (file := program.file(named)) is None:
            raise LaunchError(Complaint(f"--config {named}: send that file too"))
        yield from settings_of(document_of(file, ".yaml"), file.path).values()
    elif flag.name != "config":
        word = flag.values[0] if flag.values else flag.flag
        text = word.text if flag.values else "true"
        yield from leaves_of(replace(Setting.of(flag.name, word), value=scalar(text)))


def _the_file(program: TrainingProgram) -> LaunchFile | None:
    """Without a command, the file with litgpt's own keys. Raises LaunchError without one."""
    if program.name is not None:
        return None
    found = next((file for file in program.files.values() if _is_config(file)), None)
    if found is None:
        raise LaunchError(Complaint(f"no file has litgpt's {' and '.join(OWN_KEYS)}"))
    return found


def _command(program: TrainingProgram, settings: Mapping[str, Setting]) -> str:
    """Adapters are trained by a command of their own; a file tells them by their keys."""
    if program.name is None:
        return LORA if any(name.startswith("lora_") for name in settings) else FULL
    said = program.arguments[0].text if program.arguments else FULL
    return LORA if said == "finetune" else said


def _model(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    """The checkpoint lies where its name on the Hub says, below a directory of checkpoints."""
    named = reading.settings.get(CHECKPOINT)
    if named is not None and named.unknown is not None and is_overridden(draft):
        reading.pass_by(CHECKPOINT)
        return
    setting = reading.get(CHECKPOINT)
    if setting is None:
        draft.require("/model", "names no checkpoint_dir; give it, or /model in overrides")
        return
    put_model(draft, program, setting)


def _share_out(reading: Reading, draft: Draft, command: str) -> int | None:
    """Ranks of one device each; several share out with FSDP, and make every layer again."""
    devices, nodes = reading.get("devices"), reading.get("num_nodes")
    count: int | None = 1
    if devices is not None and str(devices.value) in ("auto", "-1"):
        draft.recognise(devices)
        count = None
    elif devices is not None or nodes is not None:
        settings = [each for each in (devices, nodes) if each is not None]
        count = reading.value("devices", 1, size) * reading.value("num_nodes", 1, size)
        draft.put(NUM_GPUS, count, *settings)
    else:
        draft.default(NUM_GPUS, 1, WHOSE)
    message = "how many devices there are is not said; give /parallelism/num_gpus in overrides"
    draft.require(NUM_GPUS, message, devices)
    given = draft.overridden(NUM_GPUS)
    count = given if given is not None else count
    engine = "/framework/data_parallel_engine"
    if count == 1:
        draft.default(engine, "ddp", WHOSE)
        return 1
    draft.default(engine, "fsdp1" if command == FULL else "fsdp2", WHOSE)
    draft.default("/parallelism/data_parallel_sharding_strategy", "optim_grads_params", WHOSE)
    draft.default("/training/recompute/granularity", "full", WHOSE)
    return count


def _batch(reading: Reading, draft: Draft) -> None:
    for key, field in (
        ("micro_batch_size", "micro_batch_size"),
        ("global_batch_size", "global_batch_size"),
        ("max_seq_length", "seq_length"),
    ):
        setting = reading.get(f"train.{key}")
        if setting is not None and setting.value is not None:
            reading.copy(f"train.{key}", f"/training/{field}")
    draft.default("/training/micro_batch_size", 1, WHOSE)
    draft.default("/training/global_batch_size", 16, WHOSE)
    message = "the longest sample decides; give /training/seq_length in overrides"
    draft.require("/training/seq_length", message)


def _adapters(reading: Reading, draft: Draft) -> bool:
    """Set the adapters, of the type of the weights, and tell whether these are quantised."""
    rank = reading.get("lora_r")
    if rank is not None:
        draft.put(f"{PEFT}/method", "lora", rank)
        reading.copy("lora_r", f"{PEFT}/r")
    else:
        draft.default(f"{PEFT}/method", "lora", WHOSE)
        draft.default(f"{PEFT}/r", 8, WHOSE)
    if not reading.copy("lora_dropout", f"{PEFT}/dropout"):
        draft.default(f"{PEFT}/dropout", 0.05, WHOSE)
    on = [name for name in MODULES if reading.value(name, name in ADAPTED, flag)]
    settings = [each for name in MODULES if (each := reading.get(name)) is not None]
    modules = [module for name in on for module in MODULES[name]]
    if settings:
        draft.put(f"{PEFT}/target_modules", modules, *settings)
    else:
        draft.default(f"{PEFT}/target_modules", modules, WHOSE)
    draft.default(f"{PEFT}/adapter_dtype", "bf16", WHOSE)
    return _quantised(reading, draft)


def _quantised(reading: Reading, draft: Draft) -> bool:
    setting = reading.get("quantize")
    if setting is None or setting.value is None:
        return False
    stored = QUANTISED.get(str(setting.value))
    if stored is None:
        draft.leave_out(setting, f"of these {' and '.join(QUANTISED)} are modelled")
        return False
    draft.put(f"{PEFT}/quantization", stored[0], setting)
    draft.put(f"{PEFT}/double_quantization", stored[1], setting)
    if experts_of(draft):
        draft.default(f"{PEFT}/quantize_experts", True, f"{WHOSE}, whose experts are linears")
    return True


def _precision(reading: Reading, draft: Draft, ranks: int | None) -> None:
    """Lightning's names; without one, bf16 as weights too where the card has it."""
    names = {
        "bf16-true": "bf16-pure",
        "32-true": "fp32",
        "bf16-mixed": "autocast-bf16" if ranks == 1 else "bf16",
    }
    setting = reading.get("precision")
    if setting is None or setting.value is None:
        draft.default(PRECISION, "bf16-pure", WHOSE)
        return
    preset = names.get(reading.value("precision", "", word))
    if preset is None:
        draft.complain(setting, f"of precisions {', '.join(names)} are modelled")
    else:
        draft.put(PRECISION, preset, setting)


def _optimizer(reading: Reading, draft: Draft, *, paged: bool) -> None:
    """torch's AdamW, over quantised weights bitsandbytes' paged one."""
    setting = reading.get("optimizer.class_path") or reading.get("optimizer")
    if setting is not None and str(setting.value).rpartition(".")[2] not in ("AdamW", "Adam"):
        draft.leave_out(setting, "the states of this optimizer are not modelled")
        return
    settings = [] if setting is None else [setting]
    fused, foreach = (reading.get(f"optimizer.init_args.{key}") for key in ("fused", "foreach"))
    kernel = "fused" if paged else "foreach"
    if fused is not None and fused.value is True:
        kernel, settings = "fused", [*settings, fused]
    elif foreach is not None and foreach.value is False and not paged:
        kernel, settings = "for-loop", [*settings, foreach]
    fields: dict[str, Any] = {"name": "adam", "implementation": kernel}
    if paged:
        fields |= {"paged": True}
    for field, value in fields.items():
        if settings:
            draft.put(f"{OPTIMIZER}/{field}", value, *settings)
        else:
            draft.default(f"{OPTIMIZER}/{field}", value, WHOSE)


def _loss(draft: Draft, settings: Mapping[str, Setting]) -> None:
    """The loss of chunks of the logits keeps no more than that of all in fp32, which stands in its
    place, and no less than one over logits as they are (chunked_cross_entropy).
    """
    effect = Effect(
        "a loss over chunks of the logits in their own type",
        "lowers",
        "Lightning-AI/litgpt litgpt/utils.py: chunked_cross_entropy",
        within={"/training/loss/cross_entropy": "fused"},
    )
    first = next(iter(settings.values()), None)
    file = first.file if first is not None else WHOSE
    draft.leave_out(Setting("chunked_cross_entropy", None, file, None), effect)
