"""A launch of torchtune -> a draft of a job."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from trainfit.launch.allocator import read_allocator_of
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dora import put_dora
from trainfit.launch.dotlist import assignments, values_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect, evaluation
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.torchtune.keys import (
    ATTENTION_MODULES,
    CHUNKED,
    COPIED,
    HEAD_MODULE,
    LOSSES,
    MLP_MODULES,
    OPTIMIZERS,
    PRECISIONS,
)
from trainfit.launch.torchtune.models import builder_named
from trainfit.launch.torchtune.preferences import is_preference, put_pairs, put_preference
from trainfit.launch.torchtune.recipes import RECIPES, refuse_others
from trainfit.launch.values import flag, names, scalar, size, whole
from trainfit.specs import optimizers
from trainfit.specs.launch import LaunchFile

WHOSE = "torchtune"
TUNE = "tune"
COMPONENT = "_component_"


DEGREES = (
    "data_parallel_replicate_dim",
    "data_parallel_shard_dim",
    "tensor_parallel_dim",
    "context_parallel_dim",
)


class TuneCommand(NamedTuple):
    """A recipe by its name, if there is one, the words behind it, and what it is started on."""

    recipe: str | None
    words: tuple[Word, ...]
    num_gpus: tuple[Setting, ...]


def recognises(program: TrainingProgram) -> bool:
    """By tune or the script of a recipe; files by the components in them."""
    if program.name is None:
        return any(_is_config(file) for file in program.files.values())
    name = program.name.rpartition("/")[2]
    return name == TUNE or name.removesuffix(".py") in RECIPES


def _is_config(file: LaunchFile) -> bool:
    model = (mapping_in(file, COMPONENT) or {}).get("model")
    return isinstance(model, dict) and str(model.get(COMPONENT)).startswith("torchtune.")


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them."""
    draft.ignore_version(version)
    command = _command(program)
    file, words = _config(program, command.words)
    overrides = list(assignments(words, _means))
    settings = _settings(file, overrides, draft)
    reading = Reading(settings, draft, values_of(settings))
    draft.default("/framework/name", "transformers", WHOSE)
    refuse_others(command.recipe, settings)
    for key, pointer in COPIED.items():
        reading.copy(key, pointer)
    put_pairs(reading, draft)
    draft.default("/training/attention/repeats_kv", True, WHOSE)
    _share_out(reading, draft, command)
    _model(reading, draft)
    _sequence(reading, draft)
    _precision(reading, draft)
    _optimizer(reading, draft)
    _recompute(reading, draft)
    compiled = _compile(reading, draft)
    _loss(reading, draft, compiled)
    idle = _validation(reading, draft)
    dora = reading.get("model.use_dora")
    if dora is not None and reading.value("model.use_dora", False, flag):
        put_dora(draft, dora)
    read_allocator_of(program, draft)
    reading.close(table_of(__package__), idle)


def _means(text: str) -> Any:
    """OmegaConf's YAML, and Python's None (config/_utils.py: _merge_yaml_and_cli_args)."""
    return None if text == "None" else scalar(text)


def _command(program: TrainingProgram) -> TuneCommand:
    """What stands behind `tune run`: options of torchrun, the recipe, and what it is given."""
    if program.name is None or program.name.rpartition("/")[2] != TUNE:
        name = program.name.rpartition("/")[2].removesuffix(".py") if program.name else None
        return TuneCommand(name, program.arguments, program.num_gpus)
    words = list(program.arguments)
    if not words or words.pop(0).text != "run":
        raise LaunchError(Complaint("of tune's commands, only run trains"))
    counts: list[Setting] = []
    while words and words[0].text.startswith("-"):
        option = words.pop(0)
        name, equals, value = option.text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        unknown = option.unknown
        if not equals and name not in FLAGS and words:
            said = words.pop(0)
            value, unknown = said.text, said.unknown
        if name in ("nproc_per_node", "nnodes"):
            counts.append(Setting(name, value, option.file, option.line, unknown))
    if not words:
        raise LaunchError(Complaint("tune run: no recipe is named"))
    recipe = words.pop(0).text.rpartition("/")[2].removesuffix(".py")
    return TuneCommand(recipe, tuple(words), tuple(counts))


FLAGS = ("standalone", "no_python", "run_path", "m", "module")
"""torchrun's options without a value."""


def _config(
    program: TrainingProgram, words: Sequence[Word]
) -> tuple[LaunchFile | None, Sequence[Word]]:
    """The YAML file that --config names, or the one that was sent, and the words that remain."""
    rest = list(words)
    for index, word in enumerate(words):
        option, equals, path = word.text.partition("=")
        if option != "--config":
            continue
        if not equals and index + 1 == len(words):
            raise LaunchError(Complaint("--config: no file is named", word.file, word.line))
        path = path if equals else words[index + 1].text
        del rest[index : index + (1 if equals else 2)]
        file = program.file(path) or program.file(f"{path}.yaml")
        if file is None:
            setting = Setting("--config", path, word.file, word.line)
            message = f"the config {path} was not sent; tune cp makes a copy of one to send"
            raise LaunchError(Complaint.at(setting, message))
        return file, rest
    files = [file for file in program.files.values() if _is_config(file)]
    if program.name is None and len(files) == 1:
        return files[0], rest
    if len(files) > 1:
        paths = " or ".join(file.path for file in files)
        raise LaunchError(Complaint(f"which config is meant, {paths}? Give --config and its file"))
    raise LaunchError(Complaint("torchtune's recipes need a config: give --config and its file"))


def _settings(
    file: LaunchFile | None, overrides: Sequence[Setting], draft: Draft
) -> dict[str, Setting]:
    """Keys of the file, and those over them. A component is named by its section there."""
    document = document_of(file, ".yaml") if file is not None else None
    found = settings_of(document, file.path) if document is not None and file is not None else {}
    components = {key.removesuffix(f".{COMPONENT}") for key in found if key.endswith(COMPONENT)}
    draft.let_count(
        found,
        (
            (f"{each.key}.{COMPONENT}" if each.key in components else each.key, each)
            for each in overrides
        ),
    )
    return found


def _share_out(reading: Reading, draft: Draft, command: TuneCommand) -> None:
    """FSDP2 over all GPUs, or over groups of them; nothing on one."""
    pointer = "/parallelism/num_gpus"
    try:
        if command.num_gpus:
            count = prod(size(each.value) for each in command.num_gpus)
            draft.put(pointer, count, *command.num_gpus)
        elif command.recipe is not None and command.recipe.endswith("single_device"):
            draft.default(pointer, 1, f"torchtune's {command.recipe}")
    except ValueError as error:
        draft.complain(command.num_gpus[0], str(error), pointer)
    message = "the number of GPUs is not said: give the command, or /parallelism/num_gpus"
    draft.require(pointer, f"{message} in overrides")
    world = draft.overridden(pointer) or draft.get(pointer)
    replicas_key, shard_key = "data_parallel_replicate_dim", "data_parallel_shard_dim"
    replicas = reading.value(replicas_key, 1, size)
    shard = reading.value(shard_key, -1, whole)
    strategy = "/parallelism/data_parallel_sharding_strategy"
    _check_product(reading, draft, world)
    if world == 1:
        draft.default(strategy, "no_shard", WHOSE)
        return
    if shard == 1 and (given := reading.get(shard_key)) is not None:
        draft.leave_out(given, "torchtune without FSDP on several GPUs is not modelled")
    draft.default(strategy, "optim_grads_params", WHOSE)
    draft.default("/framework/data_parallel_engine", "fsdp2", WHOSE)
    draft.default("/framework/sync_each_micro_batch", True, WHOSE)
    if replicas > 1 and (given := reading.get(replicas_key)) is not None:
        draft.put("/parallelism/data_parallel_replicate_size", replicas, given)


def _check_product(reading: Reading, draft: Draft, world: object) -> None:
    """Complain of degrees that do not make the number of GPUs; shards of -1 are what is left.

    Source: torchtune's training/_distributed.py (ParallelDims).
    """
    given = [setting for key in DEGREES if (setting := reading.get(key)) is not None]
    degrees = {key: reading.value(key, 1, whole) for key in DEGREES}
    shard = reading.value(DEGREES[1], -1, whole)
    product = prod(degrees.values()) // degrees[DEGREES[1]] if degrees[DEGREES[1]] else 0
    if not given or not isinstance(world, int) or product < 1:
        return
    fits = world % product == 0 if shard < 1 else product * shard == world
    if not fits:
        made = product * max(1, shard)
        draft.complain(given[0], f"the degrees make {made} GPUs, the launch has {world}")


def _model(reading: Reading, draft: Draft) -> None:
    key = f"model.{COMPONENT}"
    component = reading.get(key)
    if draft.overridden("/model") is not None:
        return
    found = builder_named(str(component.value)) if component is not None else None
    if component is None or found is None:
        message = (
            "no list has this builder; describe /model in overrides, and /training/peft in "
            "overrides where it adapts"
        )
        draft.require("/model", f"{key}: {message}" if component is None else message, component)
        return
    draft.put("/model", found.model, component)
    if not found.adapters:
        return
    _adapters(reading, draft, component, quantized=found.quantized)


def _adapters(reading: Reading, draft: Draft, component: Setting, *, quantized: bool) -> None:
    """LoRA on the linears that are named; adapters are as wide as the other weights.

    Source: torchtune's modules/peft/lora.py and modules/low_precision (NF4 in blocks of 64, scales
    quantised).
    """
    draft.put("/training/peft/method", "lora", component)
    if not reading.copy("model.lora_rank", "/training/peft/r"):
        draft.default("/training/peft/r", 8, WHOSE)
    reading.copy("model.lora_dropout", "/training/peft/dropout")
    modules = reading.value("model.lora_attn_modules", [], names)
    targets = [ATTENTION_MODULES.get(name, name) for name in modules]
    keys = ["model.lora_attn_modules"]
    for key, more in (("mlp", MLP_MODULES), ("output", (HEAD_MODULE,))):
        if reading.value(f"model.apply_lora_to_{key}", False, flag):
            targets += more
        keys.append(f"model.apply_lora_to_{key}")
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    if targets and given:
        draft.put("/training/peft/target_modules", targets, *given)
    else:
        draft.complain(component, "give model.lora_attn_modules: which linears get adapters")
    dtype = "fp32" if reading.value("dtype", "bf16") == "fp32" else "bf16"
    draft.default("/training/peft/adapter_dtype", dtype, WHOSE)
    base = reading.get("model.quantize_base")
    if quantized or reading.value("model.quantize_base", False, flag):
        setting = base if base is not None and not quantized else component
        draft.put("/training/peft/quantization", "nf4", setting)
        draft.put("/training/peft/double_quantization", True, setting)


def _sequence(reading: Reading, draft: Draft) -> None:
    """Packed samples are as long as they may be; others as long as the longest that is not cut."""
    key, pointer = "tokenizer.max_seq_len", "/training/seq_length"
    reading.get("dataset.packed")
    if reading.value(key) is not None:
        reading.copy(key, pointer)
    message = "how long a sample may be is not said; give /training/seq_length in overrides"
    draft.require(pointer, f"{message}, or tokenizer.max_seq_len", reading.get(key))


def _precision(reading: Reading, draft: Draft) -> None:
    setting = reading.get("dtype")
    if setting is None:
        draft.default("/training/precision", PRECISIONS["bf16"], WHOSE)
    elif (precision := PRECISIONS.get(str(setting.value))) is not None:
        draft.put("/training/precision", precision, setting)
    else:
        draft.complain(setting, f"must be one of {', '.join(PRECISIONS)}")


def _optimizer(reading: Reading, draft: Draft) -> None:
    """torch steps by lists of tensors unless it is told to fuse."""
    setting = reading.get(f"optimizer.{COMPONENT}")
    fused = reading.value("optimizer.fused", False, flag)
    component = str(setting.value) if setting is not None else "torch.optim.AdamW"
    found = OPTIMIZERS.get(component)
    if setting is None or found is None:
        if setting is not None:
            draft.leave_out(setting, f"the optimizer {component} is not modelled")
        return
    draft.put("/training/optimizer/name", found.name, setting)
    if optimizers.OPTIMIZERS[found.name].of_bitsandbytes:
        draft.default("/training/optimizer/embedding_moments_in_fp32", False, WHOSE)
    if found.paged:
        draft.put("/training/optimizer/paged", True, setting)
    if found.name == "sgd":
        reading.copy("optimizer.momentum", "/training/optimizer/momentum")
    pointer = "/training/optimizer/implementation"
    if (given := reading.get("optimizer.fused")) is not None:
        draft.put(pointer, "fused" if fused else "foreach", given)
    elif component.startswith("torch."):
        draft.default(pointer, "foreach", "PyTorch")


def _recompute(reading: Reading, draft: Draft) -> None:
    """Every layer, or one in so many where ac_mode says so and the other key does not."""
    pointer = "/training/recompute/granularity"
    switch = reading.get("enable_activation_checkpointing")
    mode, option = reading.settings.get("ac_mode"), reading.settings.get("ac_option")
    if switch is not None and reading.value("enable_activation_checkpointing", False, flag):
        draft.put(pointer, "full", switch)
    elif mode is not None and mode.value == "full":
        draft.put(pointer, "full", *filter(None, [reading.get("ac_mode")]))
    elif mode is not None and mode.value == "selective" and option is not None:
        if option.value == "op":
            draft.put(pointer, "selective", *filter(None, [reading.get("ac_mode")]))
            reading.get("ac_option")
            return
        draft.put(pointer, "full", *filter(None, [reading.get("ac_mode")]))
        reading.copy("ac_option", "/training/recompute/every_nth_layer", size)
        return
    reading.get("ac_option")


COMPILED = ("model", "loss", "optimizer_step", "scale_grads")


def _compile(reading: Reading, draft: Draft) -> bool:
    """Model and loss are compiled together, or neither is."""
    pointer, key = "/framework/compile", "compile"
    parts = {part: reading.get(f"{key}.{part}") for part in COMPILED}
    if any(parts.values()):
        compiled: dict[str, bool] = {
            part: reading.value(f"{key}.{part}", True, flag) for part in ("model", "loss")
        }
        given = [setting for setting in parts.values() if setting is not None]
        if len(set(compiled.values())) == 1:
            draft.put(pointer, compiled["model"], *given)
            return compiled["model"]
        for setting in given:
            draft.leave_out(setting, "compiling only one of model and loss is not modelled")
        return False
    compiled_all = reading.value(key, False, flag)
    if not reading.copy(key, pointer, flag):
        draft.default(pointer, False, WHOSE)
    return bool(compiled_all)


def _loss(reading: Reading, draft: Draft, compiled: bool) -> None:
    setting = reading.get(f"loss.{COMPONENT}")
    if setting is None:
        return
    loss = LOSSES.get(str(setting.value))
    if is_preference(setting):
        put_preference(reading, draft, setting, compiled=compiled)
    elif loss is None:
        draft.leave_out(setting, f"the loss {setting.value} is not modelled")
    elif loss == CHUNKED and not compiled:
        draft.default("/training/loss/cross_entropy", CHUNKED, WHOSE)
        draft.leave_out(setting, UNCOMPILED)
    else:
        draft.put("/training/loss/cross_entropy", loss, setting)
        if reading.settings.get("tensor_parallel_dim") is not None and loss != CHUNKED:
            draft.default("/framework/loss_parallel", False, WHOSE)


UNCOMPILED = Effect(
    "a loss of chunks that is not compiled keeps the logarithms of the softmax of all chunks in "
    "fp32, as one over all logits does, and works on one chunk at a time",
    "raises",
    "torchtune/modules/loss/cross_entropy_loss.py, loss_protocols.py",
    within={"/training/loss/cross_entropy": "unfused"},
)


def _validation(reading: Reading, draft: Draft) -> set[str]:
    """Validation keeps nothing for backward: it matters only where it reads more at once."""
    key, batch_key = "run_val_every_n_steps", "batch_size_val"
    trained = reading.value("batch_size", 1)
    read_at_once = reading.value(batch_key, trained)
    if reading.value(key) is None:
        return {key, batch_key}
    if isinstance(read_at_once, int) and isinstance(trained, int) and read_at_once > trained:
        for setting in (reading.get(key), reading.get(batch_key)):
            if setting is not None:
                draft.leave_out(setting, evaluation(read_at_once, WHOSE))
    return set()
