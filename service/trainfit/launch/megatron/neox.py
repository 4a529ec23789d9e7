"""GPT-NeoX's configs: Megatron-LM's model of 2021 under DeepSpeed, in names of its own.

Source: EleutherAI/gpt-neox megatron/neox_arguments (neox_args.py, arguments.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainfit.launch.commands.options import Interface, names
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.draft import Draft
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.megatron.arguments import read_arguments
from trainfit.launch.megatron.configs import Field, reading_of
from trainfit.launch.megatron.deepspeed import (
    ACCUMULATES,
    BUCKET,
    DeepSpeedEngine,
    put_engine,
)
from trainfit.launch.megatron.neox_model import KEYS, WHOSE, attention, layers, vocabulary
from trainfit.launch.megatron.options import Defaults, MegatronParser
from trainfit.launch.megatron.programs import read_machine
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.transformers.source import as_int
from trainfit.specs.launch import LaunchFile

PROGRAM = "deepy.py"
OWN = (
    "pos_emb",
    "no_weight_tying",
    "pipe_parallel_size",
    "gpt_j_residual",
    "output_layer_parallelism",
)
"""Keys of which a config has two at least, and no other format any."""

SAME: Mapping[str, str] = {
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_kv_heads": "num_query_groups",
    "seq_length": "seq_length",
    "max_position_embeddings": "max_position_embeddings",
    "make_vocab_size_divisible_by": "make_vocab_size_divisible_by",
    "no_weight_tying": "untie_embeddings_and_output_weights",
    "rotary_pct": "rotary_percent",
    "hidden_dropout": "hidden_dropout",
    "attention_dropout": "attention_dropout",
    "bias_gelu_fusion": "bias_gelu_fusion",
    "merge_file": "merge_file",
    "model_parallel_size": "tensor_model_parallel_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "train_batch_size": "global_batch_size",
    "checkpoint_activations": "checkpoint_activations",
    "moe_top_k": "moe_router_topk",
}
"""Key -> argument of Megatron-LM or of its forks."""
DIFFERING: Mapping[str, Any] = {
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "bias_gelu_fusion": False,
}
"""Defaults that are not Megatron-LM's."""
ADAM = ("adam", "adamw")


def recognises(program: TrainingProgram) -> bool:
    """By its launcher, or by keys of its own."""
    return (program.name or "").rpartition("/")[2] == PROGRAM or (
        program.name is None and any(map(_is_config, program.files.values()))
    )


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, "num_attention_heads") or {}
    return len(found.keys() & set(OWN)) > 1


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """All configs are one. Raises LaunchError where a key stands in two."""
    draft.ignore_version(version)
    settings = _settings(program)
    defaults = MegatronParser(None).defaults()
    read_machine(program, draft)
    neox = Defaults(WHOSE, {**defaults.values, **DIFFERING}, None)
    reading = reading_of(_fields(settings, draft), draft)
    read_arguments(reading, neox, tokenizer="GPT2BPETokenizer")
    _put_steps(settings, draft)
    engine = _engine(settings, draft)
    if engine is not None:
        put_engine(draft, engine)


def _settings(program: TrainingProgram) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for file in _configs(program):
        for name, setting in settings_of(document_of(file, ".yaml"), file.path).items():
            key = name.replace("-", "_")
            if key in found:
                message = f"{found[key].where} is said in {file.path} too; which is meant?"
                raise LaunchError(Complaint(message, file.path, setting.line))
            found[key] = setting
    if not found:
        raise LaunchError(Complaint("GPT-NeoX takes its configs as files; send them"))
    return found


def _configs(program: TrainingProgram) -> Iterator[LaunchFile]:
    """The files that the command names, behind the script that it starts; without a command, every
    config. Raises LaunchError for one that was not sent.
    """
    if program.name is None:
        yield from (file for file in program.files.values() if mapping_in(file) is not None)
        return
    rest, named, folder = program.arguments, list[Word](), None
    while rest:
        parsed = OPTIONS.parse(rest)
        folder = parsed.get("conf_dir") or folder
        named += parsed.rest[:1]
        rest = tuple(parsed.rest[1:])
    for word in named[1:]:
        path = word.text if word.text.endswith((".yml", ".json")) else f"{word.text}.yml"
        path = path if folder is None else f"{folder.value}/{path}"
        file = program.file(path)
        if file is None:
            message = f"{path} was not sent; send it too"
            raise LaunchError(Complaint(message, word.file, word.line))
        yield file


OPTIONS = Interface(
    valued=names(
        "conf_dir hostfile wandb_group wandb_run_name wandb_team iteration eval_results_prefix "
        "sample_input_file sample_output_file autotuning eval_tasks"
    ),
    aliases={"d": "conf_dir", "H": "hostfile", "i": "sample_input_file", "o": "sample_output_file"},
)
"""Options of the launcher, beside the script and its configs (consume_deepy_args)."""


def _fields(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    keys = table_of(__package__, "neox")
    for key, setting in settings.items():
        if key in SAME:
            yield Field(SAME[key], setting, setting.value)
        elif key == "partition_activations" and not _is_split(settings):
            draft.ignore(setting)
        elif key in READ or key.startswith(("zero_optimization.", "fp16.", "bf16.")):
            draft.recognise(setting)
        elif (effect := keys.effect_of(key, setting.value)) is not None:
            draft.leave_out(setting, effect)
        else:
            draft.ignore(setting)
    yield from layers(settings, draft)
    yield from _precision(settings)
    pipeline = settings.get("pipe_parallel_size")
    if pipeline is not None:
        yield Field("pipeline_model_parallel_size", pipeline, max(1, as_int(pipeline.value) or 0))
    yield from _micro_batch(settings, draft)
    yield from attention(settings, draft)
    yield from vocabulary(settings)


def _is_split(settings: Mapping[str, Setting]) -> bool:
    """Whether several ranks share a layer."""
    ranks = settings.get("model_parallel_size")
    return ranks is not None and ranks.value != 1


READ = (
    *KEYS,
    "pipe_parallel_size",
    "precision",
    "optimizer.type",
    "gradient_accumulation_steps",
    ACCUMULATES,
)
"""Keys that decide together with others."""


def _precision(settings: Mapping[str, Setting]) -> Iterator[Field]:
    named, types = settings.get("precision"), ("fp16", "bf16")
    sections = [each for name in types if (each := settings.get(f"{name}.enabled")) and each.value]
    says = named is not None and named.value is not None
    setting = named if says else next(iter(sections), None)
    if setting is None:
        return
    kind = str(setting.value) if setting is named else setting.key.partition(".")[0]
    if kind in ("bfloat16", "bf16"):
        yield Field("bf16", setting, True)
    elif kind == "fp16":
        yield Field("fp16", setting, True)


def _put_steps(settings: Mapping[str, Setting], draft: Draft) -> None:
    """The batch, of which two parts say the third (calculate_batch_parameters)."""
    batch = _said(settings, "train_batch_size")
    steps = _said(settings, "gradient_accumulation_steps")
    if batch is None and steps is None:
        draft.default("/training/num_microbatches", 1, WHOSE)
    elif batch is None and steps is not None:
        draft.put("/training/num_microbatches", steps.value, steps)
    elif steps is not None:
        draft.ignore(steps)
    optimizer = settings.get("optimizer.type")
    if optimizer is not None and str(optimizer.value).lower() not in ADAM:
        draft.leave_out(optimizer, "the states of this optimizer are not modelled")


def _said(settings: Mapping[str, Setting], key: str) -> Setting | None:
    """What says a number; null says none."""
    setting = settings.get(key)
    return None if setting is None or setting.value is None else setting


def _micro_batch(settings: Mapping[str, Setting], draft: Draft) -> Iterator[Field]:
    """A micro-batch that is not said: what each replica has of the batch in each of its steps."""
    micro, batch, steps, tensor, pipeline = (
        _said(settings, key)
        for key in (
            "train_micro_batch_size_per_gpu",
            "train_batch_size",
            "gradient_accumulation_steps",
            "model_parallel_size",
            "pipe_parallel_size",
        )
    )
    if batch is None or micro is not None:
        return
    count, ranks, stages = (
        max(1, (as_int(each.value) if each else None) or 1) for each in (steps, tensor, pipeline)
    )
    world, total = draft.settled("/parallelism/num_gpus"), as_int(batch.value)
    if total and isinstance(world, int) and world >= ranks * stages:
        yield Field("micro_batch_size", batch, total // (world // (ranks * stages)) // count)


def _engine(settings: Mapping[str, Setting], draft: Draft) -> DeepSpeedEngine | None:
    """DeepSpeed with the stage of ZeRO that is named; without, it shares nothing out."""
    zero = "zero_optimization."
    setting = settings.get(f"{zero}stage")
    if setting is None:
        return None
    sizes = (settings.get(f"{zero}{name}_bucket_size") for name in ("reduce", "allgather"))
    buckets = [number for each in sizes if each and (number := as_int(each.value))]
    offload = settings.get(f"{zero}offload_optimizer.device") or settings.get(f"{zero}cpu_offload")
    offloads = offload if offload and offload.value not in (None, "none", False) else None
    half = draft.get("/training/precision") == "bf16"
    bucket = max(buckets, default=BUCKET)
    stage = as_int(setting.value) or 0
    wide = settings.get(ACCUMULATES)
    if wide is not None and wide.value not in (None, "bf16"):
        if stage == 1 and half and wide.value == "fp32" and offloads is None:
            stage = 0
        elif stage > 0 or not half:
            draft.leave_out(wide, "gradients that are kept in another type are not modelled")
    return DeepSpeedEngine(stage, setting, setting, half, bucket, offloads)
