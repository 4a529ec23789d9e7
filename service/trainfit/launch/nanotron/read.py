"""A config of nanotron -> a draft of a job.

Sources: nanotron's config/config.py, config/parallelism_config.py and config/models_config.py, and
run_train.py, at 2411b022.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any

from trainfit.launch.allocator import read_allocator_of
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import settings_of
from trainfit.launch.values import flag, size, whole, word
from trainfit.specs.launch import LaunchFile

WHOSE = "nanotron"
CONFIG_FILE = "--config-file"
OWN_KEYS = ("tokens.batch_accumulation_per_replica", "parallelism.pp")
"""What no other format has."""

COPIED: Mapping[str, str] = {
    "parallelism.tp": "/parallelism/tp",
    "parallelism.pp": "/parallelism/pp",
    "parallelism.context_parallel_size": "/parallelism/cp",
    "parallelism.expert_parallel_size": "/parallelism/ep",
    "parallelism.tp_linear_async_communication": "/framework/tp_linear_async_communication",
    "parallelism.tp_recompute_allgather": "/framework/tp_recompute_allgather",
    "model.make_vocab_size_divisible_by": "/framework/make_vocab_size_divisible_by",
    "tokens.micro_batch_size": "/training/micro_batch_size",
    "tokens.batch_accumulation_per_replica": "/training/num_microbatches",
    "tokens.sequence_length": "/training/seq_length",
    "optimizer.optimizer_factory.torch_adam_is_fused": "/framework/torch_adam_is_fused",
    "optimizer.torch_adam_is_fused": "/framework/torch_adam_is_fused",
}
"""Keys of any release: an optimizer has its own in a factory since e77dfdf1."""
ENGINES = {"1f1b": "1f1b", "afab": "gpipe"}
MODES = {"ALL_REDUCE": False, "REDUCE_SCATTER": True}
OPTIMIZERS = {"adamW": "adam", "sgd": "sgd"}
DTYPES = ("bfloat16", "bf16")

LLAMA = "model.model_config.is_llama_config"
QWEN = "model.model_config.is_qwen2_config"
EXPERTS = "model.model_config.moe_config"
MODEL: Mapping[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_attention_heads": 32,
    "num_key_value_heads": None,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
"""Keys of LlamaConfig, by Llama's own names in a config.json, with their defaults."""


def recognises(program: TrainingProgram) -> bool:
    """By a config with nanotron's own keys, which a program names by --config-file."""
    named = any(word.text.partition("=")[0] == CONFIG_FILE for word in program.arguments)
    if program.name is not None and not named:
        return False
    return any(_is_config(file) for file in program.files.values())


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, OWN_KEYS[0].partition(".")[2]) or {}
    sections = {key: found.get(key.partition(".")[0]) for key in OWN_KEYS}
    return all(
        isinstance(section, dict) and key.partition(".")[2] in section
        for key, section in sections.items()
    )


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them."""
    draft.ignore_version(version)
    file = _config(program)
    reading = Reading(settings_of(document_of(file, ".yaml"), file.path), draft)
    draft.default("/framework/name", "nanotron", WHOSE)
    for key, pointer in COPIED.items():
        if reading.value(key) is not None:
            reading.copy(key, pointer)
    _world(reading, draft, program)
    _model(reading, draft)
    _one_of(reading, draft, "parallelism.pp_engine", "/parallelism/pipeline_schedule", ENGINES)
    _one_of(reading, draft, "parallelism.tp_mode", "/parallelism/sequence_parallel", MODES)
    name = "optimizer.optimizer_factory.name"
    _one_of(reading, draft, name, "/training/optimizer/name", OPTIMIZERS)
    _precision(reading, draft)
    _zero(reading, draft)
    _recompute(reading, draft)
    _checks(reading, draft)
    read_allocator_of(program, draft)
    reading.close(table_of(__package__))


def _config(program: TrainingProgram) -> LaunchFile:
    """The file that --config-file names; without a command, that with nanotron's own keys."""
    words = [each.text for each in program.arguments]
    for text, behind in pairwise([*words, ""]):
        option, equals, path = text.partition("=")
        if option == CONFIG_FILE:
            file = program.file(path if equals else behind)
            if file is None:
                raise LaunchError(Complaint(f"the config {path or behind} was not sent"))
            return file
    found = next((file for file in program.files.values() if _is_config(file)), None)
    if found is None:
        raise LaunchError(Complaint(f"no file has nanotron's {' and '.join(OWN_KEYS)}"))
    return found


SIZES = ("dp", "tp", "pp", "context_parallel_size", "expert_parallel_size")


def _world(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    """The product of all sizes; what starts the run must say the same. Source: ParallelContext."""
    keys = [f"parallelism.{name}" for name in SIZES]
    given = [setting for key in keys if (setting := reading.get(key)) is not None]
    world = prod(reading.value(key, 1, size) for key in keys)
    pointer = "/parallelism/num_gpus"
    if reading.get(keys[0]) is not None:
        draft.put(pointer, world, *given)
    draft.require(pointer, "parallelism.dp is not said; give it, or /parallelism/num_gpus")
    if not program.num_gpus or any(each.unknown is not None for each in program.num_gpus):
        return
    for each in program.num_gpus:
        draft.recognise(each)
    started = prod(whole(each.value) for each in program.num_gpus)
    if given and started != world:
        message = f"the sizes of parallelism make {world} GPUs, {started} are started"
        draft.complain(program.num_gpus[0], message)


def _model(reading: Reading, draft: Draft) -> None:
    """LlamaConfig's keys are those of a config.json of Llama. Qwen2Config's are the same, of such
    layers with biases where it says so; without experts.
    """
    named = [setting for key in (LLAMA, QWEN) if (setting := reading.get(key)) is not None]
    keys = {name: f"model.model_config.{name}" for name in MODEL}
    given = [setting for key in keys.values() if (setting := reading.get(key)) is not None]
    biased = reading.get(BIASES)
    if draft.overridden("/model") is not None:
        return
    none = reading.get(EXPERTS)
    sparse = any(name.startswith(f"{EXPERTS}.") for name in reading.settings) or (
        none is not None and none.value is not None
    )
    qwen = reading.value(QWEN, False, flag) and not sparse
    if not (qwen or reading.value(LLAMA, False, flag)):
        message = "of nanotron's models Llama and Qwen2 without experts are read (is_llama_config)"
        draft.require("/model", message, next(iter(given), None))
        return
    config = {name: reading.value(key, MODEL[name]) for name, key in keys.items()}
    config["num_key_value_heads"] = config["num_key_value_heads"] or config["num_attention_heads"]
    if qwen and biased is not None:
        config["attention_bias"] = bool(reading.value(BIASES, False, flag))
    draft.put("/model/hf_config", {"model_type": "llama"} | config, *named, *given)
    if qwen:
        _leave_out_copies(reading, draft, config)


BIASES = "model.model_config.attention_bias"


def _leave_out_copies(reading: Reading, draft: Draft, config: Mapping[str, Any]) -> None:
    """Qwen2's rotation may copy queries, keys and values once more or once less than Llama's: of L
    layers [b s, (a + 2 g) d / t] in bf16.

    Source: nanotron's models/qwen.py (_forward_packed), nn/rotary.py.
    """
    heads = config["num_attention_heads"]
    width = config["hidden_size"] // heads * (heads + 2 * config["num_key_value_heads"])
    samples = draft.get("/training/micro_batch_size") or 1
    tokens = samples * (draft.get("/training/seq_length") or 0)
    layers = config["num_hidden_layers"] // (draft.get("/parallelism/pp") or 1) + 1
    number = 2 * layers * tokens * width // (draft.get("/parallelism/tp") or 1)
    effect = Effect(
        "Qwen2's layers are read as Llama's; its rotation may copy queries, keys and values",
        "either",
        "nanotron's models/qwen.py: _forward_packed",
        bytes=number,
    )
    draft.leave_out(reading.settings[QWEN], effect)


def _one_of(
    reading: Reading, draft: Draft, key: str, pointer: str, meanings: Mapping[str, Any]
) -> None:
    """A word that stands for a value of a field; null stands for the default."""
    setting = reading.get(key)
    if setting is None or setting.value is None:
        return
    said = reading.value(key, "", word)
    meaning = {text.casefold(): value for text, value in meanings.items()}.get(said.casefold())
    if meaning is None:
        draft.complain(setting, f"must be one of {', '.join(meanings)}")
    else:
        draft.put(pointer, meaning, setting)


def _precision(reading: Reading, draft: Draft) -> None:
    key, dtype = "optimizer.accumulate_grad_in_fp32", reading.get("model.dtype")
    if dtype is not None and dtype.value not in (None, *DTYPES):
        draft.leave_out(dtype, "training in another type than bfloat16 is not modelled")
    setting = reading.get(key)
    if setting is None:
        draft.require("/training/precision", f"{key} is not said; give it, or /training/precision")
        return
    in_fp32 = reading.value(key, True, flag)
    draft.put("/training/precision", "bf16" if in_fp32 else "bf16-pure", setting)


def _zero(reading: Reading, draft: Draft) -> None:
    """Any stage above 0 is that of 1. Source: helpers.py (init_optimizer_and_grad_accumulator)."""
    setting = reading.get("optimizer.zero_stage")
    if setting is not None:
        shares = reading.value("optimizer.zero_stage", 0, whole) > 0
        strategy = "optim" if shares else "no_shard"
        draft.put("/parallelism/data_parallel_sharding_strategy", strategy, setting)


def _recompute(reading: Reading, draft: Draft) -> None:
    setting = reading.get("parallelism.recompute_layer")
    if setting is not None and reading.value("parallelism.recompute_layer", False, flag):
        draft.put("/training/recompute/granularity", "full", setting)


UNCHECKED = "general.ignore_sanity_checks"
COMPARED = 6 * 4
"""Bytes of each element that is compared with another rank's: that rank's in fp32, and the
differences, their bounds and the masks of torch.isclose at once.
"""


def _checks(reading: Reading, draft: Draft) -> None:
    """Before a step and before the optimizer's, ranks compare parameters, gradients and states one
    after another; the largest of a Llama is the embedding [V / t, h] or a product [2 f / t, h].

    Sources: nanotron's sanity_checks.py (assert_tensor_synced_across_pg); torch.testing.
    """
    setting = reading.get(UNCHECKED)
    if setting is None or reading.value(UNCHECKED, True, flag):
        return
    config = draft.get("/model/hf_config") or {}
    rows = max(config.get("vocab_size", 0), 2 * config.get("intermediate_size", 0))
    number = COMPARED * rows * config.get("hidden_size", 0) // (draft.get("/parallelism/tp") or 1)
    why = "ranks compare one parameter after another with those of the first"
    draft.leave_out(setting, Effect(why, "raises", "nanotron's sanity_checks.py", bytes=number))
