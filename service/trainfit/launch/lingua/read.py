"""A config of lingua -> a draft of a job. Its decoder is torchtitan's of 2024: FSDP2 around the
embedding, each layer and the head, weights in fp32, one fused AdamW.

Sources: facebookresearch/lingua apps/main/train.py and transformer.py, lingua/transformer.py,
distributed.py, optim.py, data.py, probe.py and stool.py, at 437d680.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from trainfit.launch.allocator import read_allocator
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dotlist import assignments, values_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import SHARING, Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.missing import not_sent
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import flag, size, whole, word
from trainfit.specs.launch import LaunchFile

WHOSE = "lingua"
TRAINER, STOOL = "apps.main.train", "lingua.stool"
CONFIG, NODES, GPUS = "config", "nodes", "ngpu"
SECTION = "fsdp_type"
NUM_GPUS = "/parallelism/num_gpus"
ROWS = "/model/spec/vocab_size"
BYTES = 258
"""Rows of the tokenizer of bytes."""
COPIED: Mapping[str, tuple[str, int]] = {
    "data.batch_size": ("/training/micro_batch_size", 2),
    "data.seq_len": ("/training/seq_length", 2048),
    "grad_acc_steps": ("/training/num_microbatches", 1),
}
"""Key -> field, and what it is where nothing is said."""
LINGUA: Mapping[str, Any] = {"model.dim": 512, "model.n_layers": 8, "model.multiple_of": 256}
MOST = 64
"""Times that a feed-forward network is wider than lingua's own."""
NORMS = 3
"""Of a layer two, and a third to spare for the last one of the model."""
PROBED = 4 + 4 + 4 + 4 + 8 + 4
"""Bytes of an element of which statistics are made: fp32, its size, its distance from the mean and
that to a power, in fp64 for its mean, and a copy to spare (lingua/probe.py: _get_stats).
"""
DTYPES = {"fp32": "fp32", "bf16": "bf16"}


def recognises(program: TrainingProgram) -> bool:
    """By its trainer, or what puts that into a queue; files by how they share states out."""
    if program.name is None:
        return any(_is_config(file) for file in program.files.values())
    return program.name in (TRAINER, STOOL)


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, SECTION) or {}
    sections = [found.get(name) for name in ("distributed", "model", "data")]
    whole_config = all(isinstance(each, dict) for each in sections)
    return whole_config and SECTION in found["distributed"] and "dim" in found["model"]


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them."""
    draft.ignore_version(version)
    settings, started = _settings(program, draft)
    reading = Reading(settings, draft, values_of(settings))
    draft.default("/framework/name", "torchtitan", WHOSE)
    draft.default("/framework/fsdp_reshard_after_forward", "never", WHOSE)
    draft.default("/training/optimizer/implementation", "fused", WHOSE)
    for key, (pointer, usual) in COPIED.items():
        if reading.value(key) is not None:
            reading.copy(key, pointer, size)
        else:
            draft.default(pointer, usual, WHOSE)
    heads = _model(reading, draft)
    _share_out(reading, draft, started)
    _precision(reading, draft)
    _compile(reading, draft)
    _copies(reading, draft, heads)
    _recompute(reading, draft)
    _probe(reading, draft)
    read_allocator(program.environment, draft)
    draft.default("/framework/expandable_segments", False, "PyTorch")
    reading.close(table_of(__package__))


def _settings(
    program: TrainingProgram, draft: Draft
) -> tuple[dict[str, Setting], Sequence[Setting]]:
    """The keys of the config with those of the words over it, and how many GPUs are started. What
    stool is given is its own: nodes and their GPUs. Raises LaunchError.
    """
    words: dict[str, Setting] = {}
    draft.let_count(words, ((each.key, each) for each in assignments(program.arguments)))
    named = words.pop(CONFIG, None)
    file = _file(program, named)
    found = settings_of(document_of(file, ".yaml"), file.path) if file is not None else {}
    if program.name != STOOL:
        draft.let_count(found, words.items())
        return found, program.num_gpus
    each = words.pop(GPUS, None) or Setting(GPUS, 8, WHOSE, None, whose=WHOSE)
    nodes = words.pop(NODES, None)
    for setting in words.values():
        draft.ignore(setting)
    return found, () if nodes is None else (nodes, each)


def _file(program: TrainingProgram, named: Setting | None) -> LaunchFile | None:
    if named is not None:
        file = program.file(str(named.value))
        if file is None:
            raise LaunchError(Complaint.at(named, not_sent(str(named.value), named.unknown)))
        return file
    found = [file for file in program.files.values() if _is_config(file)]
    if len(found) > 1:
        paths = ", ".join(file.path for file in found)
        raise LaunchError(Complaint(f"send one config of lingua, not {paths}"))
    return found[0] if found else None


def _model(reading: Reading, draft: Draft) -> tuple[int, int, int]:
    """Set the decoder by its dimensions; its heads, groups of them, and the width of one."""
    keys = ("dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "ffn_dim_multiplier")
    names = [f"model.{key}" for key in (*keys, "multiple_of", "weight_tying", "vocab_size")]
    given = [setting for name in names if (setting := reading.get(name)) is not None]
    dim, layers, multiple = (reading.value(key, usual, size) for key, usual in LINGUA.items())
    heads = reading.value("model.n_heads", 0, whole)
    width = reading.value("model.head_dim", 0, whole) or (dim // heads if heads else 0)
    heads = heads or (dim // width if width else 0)
    groups = reading.value("model.n_kv_heads", 0, whole) or heads
    if draft.overridden("/model/hf_id") is not None:
        return heads, groups, width
    if not heads:
        message = "give model.n_heads or model.head_dim: how many heads a layer has is not said"
        draft.require("/model", message)
        return 0, 0, 0
    hidden = int(reading.value("model.ffn_dim_multiplier", 1.0, _factor) * int(2 * 4 * dim / 3))
    tied = reading.value("model.weight_tying", False, flag)
    fields = {
        "num_layers": layers,
        "hidden_size": dim,
        "num_attention_heads": heads,
        "num_query_groups": groups,
        "kv_channels": width,
        "ffn_hidden_size": -(-hidden // multiple) * multiple,
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "swiglu": True,
        "add_bias_linear": False,
        "untie_embeddings_and_output_weights": not tied,
    }
    for name, value in fields.items():
        draft.put(f"/model/spec/{name}", value, *given)
    rows = reading.value("model.vocab_size", -1, whole)
    kind = reading.get("data.tokenizer.name")
    if rows > 0:
        draft.put(ROWS, rows, *given)
    elif kind is None or kind.value == "bytes":
        draft.default(ROWS, BYTES, "lingua's tokenizer of bytes")
    message = "the size of the vocabulary is the tokenizer's, which is not read"
    draft.require(ROWS, f"{message}; give {ROWS} in overrides")
    return heads, groups, width


def _factor(value: Any) -> float:
    """Raises ValueError."""
    if isinstance(value, (int, float, str)) and 0 < (factor := float(value)) < MOST:
        return factor
    raise ValueError(f"must be a number above 0, not {value!r}")


def _share_out(reading: Reading, draft: Draft, started: Sequence[Setting]) -> None:
    """FSDP over all replicas, or within as many shards; what does not make the number of GPUs is
    worked out (train.py: validate_train_args).
    """
    shard_key, tensor_key = "distributed.dp_shard", "distributed.tp_size"
    replicas = reading.get("distributed.dp_replicate")
    shard, tensor = (reading.value(key, 1, size) for key in (shard_key, tensor_key))
    if reading.get(tensor_key) is not None:
        draft.put("/parallelism/tp", tensor, *_given(reading, tensor_key))
    if tensor > 1:
        draft.default("/framework/loss_parallel", False, WHOSE)
    if started:
        if all(each.unknown is None for each in started):
            draft.put(NUM_GPUS, prod(whole(each.value) for each in started), *started)
        else:
            draft.put(NUM_GPUS, None, *started)
    elif replicas is not None and draft.overridden(NUM_GPUS) is None:
        keys = ("distributed.dp_replicate", shard_key, tensor_key)
        world = reading.value(keys[0], 1, size) * shard * tensor
        draft.put(NUM_GPUS, world, *_given(reading, *keys))
    draft.require(NUM_GPUS, f"the number of GPUs is not said; give {NUM_GPUS} in overrides")
    kind = reading.get(f"distributed.{SECTION}")
    if reading.value(f"distributed.{SECTION}", "no_shard", word) != "full_shard":
        why = "FSDP in which each rank has all shares is not modelled"
        draft.leave_out(kind or Setting(SECTION, "no_shard", WHOSE, None), why)
        return
    draft.put(SHARING, "optim_grads_params", *_given(reading, f"distributed.{SECTION}"))
    world = draft.settled(NUM_GPUS)
    if shard > 1 and isinstance(world, int):
        groups = world // (shard * tensor)
        if groups * shard * tensor != world:
            draft.complain(reading.settings[shard_key], f"does not divide {world} GPUs")
        draft.put("/parallelism/data_parallel_replicate_size", groups, *_given(reading, shard_key))


def _given(reading: Reading, *keys: str) -> list[Setting]:
    return [setting for key in keys if (setting := reading.get(key)) is not None]


def _precision(reading: Reading, draft: Draft) -> None:
    """Weights in fp32 are gathered in another type, and gradients reduced in fp32."""
    draft.default("/training/precision/params", "fp32", WHOSE)
    draft.default("/training/precision/gradients", "fp32", WHOSE)
    key = "distributed.model_dtype"
    setting = reading.get(key)
    if setting is None:
        draft.default("/training/precision/compute", "bf16", WHOSE)
    elif reading.value(key, "bf16", word) in DTYPES:
        draft.put("/training/precision/compute", DTYPES[reading.value(key, "bf16", word)], setting)
    else:
        draft.leave_out(setting, f"{setting.value} without a scale of the loss is not modelled")


def _compile(reading: Reading, draft: Draft) -> None:
    """The whole model, with its norms and its loss, is compiled; else norms are operations of their
    own, of which two keep [b s, h] in fp32.
    """
    key = "distributed.compile"
    compiled = reading.value(key, False, flag)
    if (setting := reading.get(key)) is not None:
        draft.put("/framework/compile", compiled, setting)
    if compiled:
        draft.default("/training/loss/cross_entropy", "fused", "PyTorch's compiler")
        return
    layers, width = (
        draft.get(f"/model/spec/{name}") or 0 for name in ("num_layers", "hidden_size")
    )
    number = NORMS * 2 * 4 * layers * _tokens(draft) * width
    why = "norms that are not compiled keep their input in fp32 and what it is scaled to"
    effect = Effect(why, "raises", "lingua/transformer.py: RMSNorm", bytes=number)
    draft.leave_out(setting or Setting(key, False, WHOSE, None), effect)


def _tokens(draft: Draft) -> int:
    """Of a micro-batch."""
    samples = draft.get("/training/micro_batch_size") or 1
    return int(samples * (draft.get("/training/seq_length") or 0))


def _copies(reading: Reading, draft: Draft, heads: tuple[int, int, int]) -> None:
    """Keys and values are copied to every head of a group: of L layers [b s, (a - g) d] each."""
    query, groups, width = heads
    setting = reading.get("model.n_kv_heads")
    if setting is None or groups in (0, query):
        return
    layers = draft.get("/model/spec/num_layers") or 0
    number = 2 * 2 * layers * _tokens(draft) * query * width
    why = "keys and values are copied to every query head"
    effect = Effect(why, "raises", "lingua/transformer.py: repeat_kv", bytes=number)
    draft.leave_out(setting, effect)


def _recompute(reading: Reading, draft: Draft) -> None:
    """One region around the model keeps every product and what attention gives."""
    key = "distributed.selective_activation_checkpointing"
    setting = reading.get(key)
    if setting is not None and reading.value(key, False, flag):
        effect = Effect(
            "all but products and attention is made again, of the whole model at once",
            "lowers",
            "lingua/distributed.py: default_no_recompute_ops",
            within={"/training/recompute/granularity": "selective"},
        )
        draft.leave_out(setting, effect)


def _probe(reading: Reading, draft: Draft) -> None:
    """Now and then a step on half a batch that is not compiled, of whose tensors statistics are
    made, one after another; the largest are the logits and a gathered matrix.
    """
    setting = reading.get("probe_freq")
    if setting is None or setting.value is None:
        return
    rows, width, samples = (
        draft.settled(pointer) or 1
        for pointer in (ROWS, "/model/spec/hidden_size", "/training/micro_batch_size")
    )
    half = max(1, samples // 2)
    number = PROBED * rows * max(width, half * (draft.get("/training/seq_length") or 0))
    effect = Effect(
        "a probe runs a step on half a batch without compiling it, and statistics of each tensor",
        "raises",
        "apps/main/train.py; lingua/probe.py: _get_stats",
        within={
            "/framework/compile": False,
            "/training/loss/cross_entropy": "unfused",
            "/training/micro_batch_size": half,
            "/training/num_microbatches": 1,
        },
        bytes=number,
        apart=True,
    )
    draft.leave_out(setting, effect)
