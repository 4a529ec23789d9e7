"""A recipe of NeMo AutoModel -> a draft of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from trainfit.launch.allocator import read_allocator_of
from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.models import config_of, put_model
from trainfit.launch.program import TrainingProgram, Word
from trainfit.launch.settings import Setting, leaves_of, settings_of
from trainfit.launch.values import PLAIN, scalar, size, whole
from trainfit.specs.launch import LaunchFile

WHOSE = "NeMo AutoModel"
PACKAGE = "nemo_automodel."
MODEL = ("model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path")
NUM_GPUS = "/parallelism/num_gpus"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
PEFT = "/training/peft"
PRECISIONS: Mapping[str, str] = {
    "bf16": "bf16-pure",
    "bfloat16": "bf16-pure",
    "fp32": "bf16",
    "float32": "bf16",
}
"""The type in which weights are loaded -> FSDP2 gathers and multiplies in bf16 (mp_policy)."""
EVERY_LINEAR = ("*_proj", "all-linear")
ADAM = ("Adam", "AdamW")
WHOLE_LOSS = "MaskedCrossEntropy"
LOSSES = ("FusedLinearCrossEntropy", "ChunkedCrossEntropy", "TEParallelCrossEntropy")
"""Losses that keep less than one over all logits in fp32."""


def recognises(program: TrainingProgram) -> bool:
    """By a file that names a class of the package as its model."""
    return _config(program) is not None


def _config(program: TrainingProgram) -> LaunchFile | None:
    """The recipe: the only one that was sent, or that a command names."""
    files = [file for file in program.files.values() if _is_config(file)]
    if program.name is not None:
        named = [word.text for word in program.arguments]
        files = [file for file in files if any(text.endswith(file.path) for text in named)]
    return files[0] if len(files) == 1 else None


def _is_config(file: LaunchFile) -> bool:
    model = (mapping_in(file, PACKAGE) or {}).get("model")
    return isinstance(model, dict) and str(model.get("_target_")).startswith(PACKAGE)


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them. Raises LaunchError without a recipe."""
    draft.ignore_version(version)
    file = _config(program)
    if file is None:
        raise LaunchError(Complaint(f"no file has a model of {PACKAGE.rstrip('.')}"))
    reading = Reading(_settings(program, file, draft), draft)
    draft.default("/framework/name", "transformers", WHOSE)
    _model(reading, draft, program)
    _share_out(reading, draft, program)
    _batch(reading, draft)
    _step(reading, draft)
    _adapters(reading, draft)
    read_allocator_of(program, draft)
    reading.close(table_of(__package__))


def _settings(program: TrainingProgram, file: LaunchFile, draft: Draft) -> dict[str, Setting]:
    """The keys of the file, and over them those of the command line, which may name a section as a
    whole. Source: components/config/_arg_parser.py (parse_cli_argv).
    """
    found = settings_of(document_of(file, ".yaml"), file.path)
    draft.let_count(found, _said_by(program.arguments))
    return found


def _said_by(arguments: Sequence[Word]) -> Iterator[tuple[str, Setting]]:
    """What the command line sets; a section that it gives as a whole first loses what it had."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        key, equals, inline = word.text.lstrip("-").partition("=")
        if not word.text.startswith("--") or not key:
            continue
        said = replace(word, text=inline if equals else "True")
        if not equals and words and not words[0].text.startswith("--"):
            said = words.pop(0)
        if key == "config" and not equals:
            continue
        setting = replace(Setting.of(key, said), value=_translated(said.text))
        leaves = list(leaves_of(setting))
        if leaves != [setting]:
            yield key, replace(setting, value=None)
        yield from ((leaf.key, leaf) for leaf in leaves)


WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("none", "None"), None),
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
}


def _translated(text: str) -> Any:
    """A literal of Python, or the text: yes and null are text (loader.py: translate_value)."""
    if text in WORDS:
        return WORDS[text]
    return text if PLAIN.fullmatch(text) else scalar(text)


def _model(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    named = [setting for key in MODEL if (setting := reading.get(key)) is not None]
    if named:
        put_model(draft, program, named[0])
    draft.require("/model", f"{MODEL[0]} names no model; give it, or /model in overrides")
    dtype = reading.get("model.torch_dtype")
    name = "auto" if dtype is None else str(dtype.value).removeprefix("torch.")
    if name == "auto":
        config = config_of(draft) or {}
        name = str(config.get("dtype") or config.get("torch_dtype") or "bf16")
    precision = PRECISIONS.get(name)
    if dtype is None and precision is not None:
        draft.default("/training/precision", precision, WHOSE)
    elif dtype is None:
        message = (
            "the type of the checkpoint is not modelled; give /training/precision in overrides"
        )
        draft.require("/training/precision", message)
    elif precision is None:
        draft.complain(dtype, f"of types {', '.join(PRECISIONS)} are modelled")
    else:
        draft.put("/training/precision", precision, dtype)


def _share_out(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    """Sizes of parallelism, what is shared out, and the number of GPUs that both make."""
    for key, field in (("tp_size", "tp"), ("cp_size", "cp")):
        setting = reading.get(f"distributed.{key}")
        if setting is not None and setting.value not in (None, "none"):
            draft.put(f"/parallelism/{field}", setting.value, setting)
    sequence = reading.get("distributed.sequence_parallel")
    if sequence is not None and (draft.get("/parallelism/tp") or 1) > 1:
        reading.copy("distributed.sequence_parallel", "/parallelism/sequence_parallel")
    replicas = reading.get("distributed.dp_replicate_size")
    if replicas is not None and replicas.value not in (None, "none", 1):
        draft.put("/parallelism/data_parallel_replicate_size", replicas.value, replicas)
    strategy = reading.get("distributed.strategy")
    kind = "fsdp2" if strategy is None else str(strategy.value)
    if kind not in ("fsdp2", "ddp"):
        assert strategy is not None
        draft.leave_out(strategy, "of strategies fsdp2 and ddp are modelled")
    engine = "ddp" if kind == "ddp" else "fsdp2"
    draft.default("/framework/data_parallel_engine", engine, WHOSE)
    shares = "no_shard" if engine == "ddp" else "optim_grads_params"
    draft.default(SHARDING, shares, WHOSE)
    _count(reading, draft, program)


PROCESSES = ("nproc-per-node", "nproc_per_node")
"""What `automodel` is given of the number of GPUs where nothing else starts it (cli/app.py)."""


def _count(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    own = [each for key in PROCESSES if (each := reading.get(key)) is not None]
    counts = program.num_gpus or tuple(own)
    ranks = reading.get("distributed.dp_size")
    if counts and all(each.unknown is None for each in counts):
        draft.put(NUM_GPUS, prod(whole(each.value) for each in counts), *counts)
    elif counts:
        draft.put(NUM_GPUS, None, *counts)
    elif ranks is not None and ranks.value not in (None, "none"):
        others = [draft.get(f"/parallelism/{name}") or 1 for name in ("tp", "cp")]
        draft.put(NUM_GPUS, reading.value("distributed.dp_size", 1, size) * prod(others), ranks)
    message = f"nothing says on how many GPUs it runs; give {NUM_GPUS} in overrides"
    draft.require(NUM_GPUS, message)


def _batch(reading: Reading, draft: Draft) -> None:
    """A sample is as long as a pack, else as its set of data says."""
    for key, field in (
        ("local_batch_size", "micro_batch_size"),
        ("global_batch_size", "global_batch_size"),
    ):
        reading.copy(f"step_scheduler.{key}", f"/training/{field}")
    length = "/training/seq_length"
    for key in ("packed_sequence.packed_sequence_size", "dataset.seq_length"):
        setting = reading.get(key)
        if setting is not None and setting.value and draft.get(length) is None:
            draft.put(length, setting.value, setting)
    draft.require(length, f"the longest sample decides; give {length} in overrides")


def _step(reading: Reading, draft: Draft) -> None:
    """Recompute, the optimizer and the loss."""
    again = reading.get("distributed.activation_checkpointing")
    if again is not None and str(again.value).lower() in ("true", "full"):
        draft.put("/training/recompute/granularity", "full", again)
    elif again is not None and again.value not in (None, False):
        draft.leave_out(again, "what this recompute keeps is not modelled")
    step, fused, foreach = (
        reading.get(f"optimizer.{key}") for key in ("_target_", "fused", "foreach")
    )
    named = "AdamW" if step is None else str(step.value)
    if step is not None and not (named.startswith("torch.") and named.endswith(ADAM)):
        draft.leave_out(step, "the states of this optimizer are not modelled")
    elif fused is not None and fused.value is True:
        draft.put("/training/optimizer/implementation", "fused", fused)
    elif foreach is not None and foreach.value is False:
        draft.put("/training/optimizer/implementation", "for-loop", foreach)
    else:
        draft.default("/training/optimizer/implementation", "foreach", "PyTorch")
    loss = reading.get("loss_fn._target_")
    kind = WHOLE_LOSS if loss is None else str(loss.value).rpartition(".")[2]
    if loss is not None and kind in LOSSES:
        within = {"/training/loss/cross_entropy": "liger"}
        draft.leave_out(loss, Effect(SMALLER_LOSS, "lowers", f"{PACKAGE}components.loss", within))
    elif loss is not None and kind != WHOLE_LOSS:
        draft.leave_out(loss, "what this loss keeps is not modelled")
    if reading.value("model.use_liger_kernel", True) is not False:
        within_layers = {"/framework/liger_kernel": True}
        place = reading.settings.get("model._target_")
        liger = place or Setting("model.use_liger_kernel", True, WHOSE, None)
        liger = replace(liger, key="model.use_liger_kernel", value=True)
        source = "nemo_automodel/_transformers/auto_model.py (use_liger_kernel)"
        draft.leave_out(liger, Effect(SMALLER_LAYERS, "lowers", source, within_layers))


SMALLER_LOSS = "this loss keeps less than one over all logits in fp32, which is priced"
SMALLER_LAYERS = "Liger's kernels run where they are installed, and keep less"


def _adapters(reading: Reading, draft: Draft) -> None:
    settings = [each for key, each in reading.settings.items() if key.startswith("peft.")]
    if not settings:
        return
    kind = reading.get("peft._target_")
    draft.put(f"{PEFT}/method", "lora", kind or settings[0])
    if kind is not None and not str(kind.value).endswith("lora.PeftConfig"):
        draft.leave_out(kind, "of adapters LoRA is modelled")
    if not reading.copy("peft.dim", f"{PEFT}/r"):
        draft.default(f"{PEFT}/r", 8, WHOSE)
    if not reading.copy("peft.dropout", f"{PEFT}/dropout"):
        draft.default(f"{PEFT}/dropout", 0.0, WHOSE)
    targets = reading.get("peft.target_modules")
    every = reading.get("peft.match_all_linear")
    names = targets.value if targets is not None else None
    listed = [names] if isinstance(names, str) else names or []
    if targets is not None and not isinstance(listed, list):
        draft.complain(targets, "must be a list of names")
        return
    if every is not None and every.value is True:
        draft.put(f"{PEFT}/target_modules", "all-linear", every)
    elif targets is not None and any(str(each) in EVERY_LINEAR for each in listed):
        draft.put(f"{PEFT}/target_modules", "all-linear", targets)
    elif targets is not None and not any("*" in str(each) for each in listed):
        modules = [str(each).rpartition(".")[2] for each in listed]
        draft.put(f"{PEFT}/target_modules", modules, targets)
    elif targets is not None:
        draft.complain(targets, "of patterns *_proj is known; name the modules")
    narrow = draft.get("/training/precision") == "bf16-pure"
    draft.default(f"{PEFT}/adapter_dtype", "bf16" if narrow else "fp32", WHOSE)
