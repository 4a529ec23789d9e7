"""A config of LLM Foundry -> a draft of a job: MPT and models of transformers, trained by Composer.

Sources: llmfoundry/utils/config_utils.py (TrainConfig), models/hf/hf_base.py and hf_causal_lm.py;
composer/distributed (dist_strategy.py, mosaic_parallelism.py), composer/utils/parallelism.py
(FSDPConfig), composer/trainer/trainer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from trainfit.launch.documents import document_of, mapping_in
from trainfit.launch.dotlist import assignments, values_of
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.effects import Effect, evaluation
from trainfit.launch.errors import Complaint, LaunchError
from trainfit.launch.keys import table_of
from trainfit.launch.llm_foundry.mpt import KIND, put_mpt
from trainfit.launch.models import config_of, put_model, text_config_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting, settings_of
from trainfit.launch.values import flag, names, size, word
from trainfit.specs.launch import LaunchFile

WHOSE = "LLM Foundry"
SCRIPT = "train.py"
MODEL = "model.pretrained_model_name_or_path"
FSDP = "fsdp_config"
MICRO_BATCH = "/training/micro_batch_size"
LENGTH = "/training/seq_length"
NUM_GPUS = "/parallelism/num_gpus"
PEFT = "/training/peft"
SEGMENTS = "/framework/expandable_segments"
SHARDING = "/parallelism/data_parallel_sharding_strategy"
STRATEGIES: Mapping[str, str] = {
    "FULL_SHARD": "optim_grads_params",
    "SHARD_GRAD_OP": "optim_grads",
    "NO_SHARD": "no_shard",
}
REDUCED: Mapping[str, str] = {"PURE": "bf16", "DEFAULT": "fp32"}
"""fsdp_config.mixed_precision -> the type that gradients are reduced in; what a forward reads is
narrow with both (get_mixed_precision)."""
ATTENTION: Mapping[str, str] = {
    "flash_attention_2": "flash",
    "sdpa": "sdpa",
    "eager": "eager",
}
CHANGED = "model.config_overrides."
KERNEL = f"{CHANGED}attn_config.attn_impl"
LENGTHS = ("max_position_embeddings", "max_seq_len")
ROTATED = ("llama", "mistral", "mixtral", "qwen2", "gpt_neox", "gemma", "phi3", "dbrx")
"""Types of models that learn no positions, as MPT with ALiBi does not."""
OF_MPT: Mapping[str, str] = {"flash": "flash", "torch": "eager"}
"""What MPT's own config calls kernels of attention. Source: llmfoundry/models/layers/attention.py.
"""
FP32 = 4
"""Bytes of an element."""
OPTIMIZERS: Mapping[str, str] = {"decoupled_adamw": "adam", "decoupled_lionw": "lion"}


def recognises(program: TrainingProgram) -> bool:
    """By its script with one of its configs, or by a config."""
    ours = program.name is None or program.name.rpartition("/")[2] == SCRIPT
    return ours and any(_is_config(file) for file in program.files.values())


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, "train_loader") or {}
    model = found.get("model")
    return "device_train_microbatch_size" in found and isinstance(model, dict) and "name" in model


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Keys mean the same in every release that has them."""
    draft.ignore_version(version)
    settings = _settings(program, draft)
    reading = Reading(settings, draft, values_of(settings))
    draft.default("/framework/name", "transformers", WHOSE)
    draft.default("/speed/stack", "llm-foundry", WHOSE)
    _model(reading, draft, program)
    _batch(reading, draft)
    _count_ranks(draft, program)
    sharded = _share_out(reading, draft)
    adapters = _adapters(reading, draft)
    _precision(reading, draft, sharded=sharded, adapters=adapters)
    _optimizer(reading, draft)
    _kept_logits(reading, draft)
    if not reading.copy("expandable_segments", SEGMENTS, flag):
        draft.default(SEGMENTS, True, WHOSE)
    reading.close(table_of(__package__))


def _settings(program: TrainingProgram, draft: Draft) -> dict[str, Setting]:
    """The keys of the config, and over them what the command line says. Raises LaunchError."""
    configs = [file for file in program.files.values() if _is_config(file)]
    named = [word.text for word in program.arguments if "=" not in word.text]
    if program.name is not None:
        found = [program.file(text) for text in named]
        configs = [file for file in found if file is not None and _is_config(file)]
    if len(configs) != 1:
        raise LaunchError(Complaint(f"send the one config of {WHOSE} that is trained"))
    (file,) = configs
    settings = settings_of(document_of(file, ".yaml"), file.path)
    said = [each for each in program.arguments if "=" in each.text]
    draft.let_count(settings, ((each.key, each) for each in assignments(said)))
    return settings


def _model(reading: Reading, draft: Draft, program: TrainingProgram) -> None:
    """Models of transformers by their name; others are described in overrides."""
    name, setting = reading.get("model.name"), reading.get(MODEL)
    if name is not None and name.value == KIND and draft.overridden("/model") is None:
        put_mpt(reading, draft)
        return
    if name is not None and name.value != "hf_causal_lm":
        message = f"{name.value} is a model of its own; give /model in overrides"
        draft.require("/model", message, name)
        return
    if setting is None:
        draft.require("/model", "names no model; give /model in overrides")
        return
    value = Setting(setting.key, reading.value(MODEL), setting.file, setting.line)
    put_model(draft, program, value)
    _override(reading, draft)
    flash = reading.get("model.use_flash_attention_2")
    given = reading.get("model.attn_implementation")
    kernel = reading.settings.get(KERNEL)
    pointer = "/training/attention/backend"
    if kernel is not None and str(kernel.value) in OF_MPT:
        draft.put(pointer, OF_MPT[reading.value(KERNEL, convert=word)], kernel)
    elif flash is not None and reading.value("model.use_flash_attention_2", False, flag):
        draft.put(pointer, "flash", flash)
    elif given is not None and str(given.value) in ATTENTION:
        draft.put(pointer, ATTENTION[str(given.value)], given)
    elif given is not None and given.value is not None:
        draft.leave_out(given, "what this kernel of attention keeps is not modelled")
    else:
        draft.default(pointer, "eager", WHOSE)


def _override(reading: Reading, draft: Draft) -> None:
    """Keys of the model's config.json that are changed and change no shape: of one that learns no
    positions, how many it may have.
    """
    config = config_of(draft) or {}
    attention = config.get("attn_config")
    biased = isinstance(attention, dict) and bool(attention.get("alibi"))
    if biased or str(config.get("model_type")) in ROTATED:
        for key in LENGTHS:
            reading.pass_by(f"{CHANGED}{key}")
    reading.pass_by(f"{CHANGED}attn_config.attn_uses_sequence_id")


def _batch(reading: Reading, draft: Draft) -> None:
    reading.copy("max_seq_len", LENGTH, size)
    reading.get("train_loader.dataset.max_seq_len")
    reading.copy("global_train_batch_size", "/training/global_batch_size", size)
    micro = reading.get("device_train_microbatch_size")
    if micro is not None and micro.value == "auto":
        message = "is as large as fits, which a run finds out; give /training/micro_batch_size"
        draft.require(MICRO_BATCH, f"{message} in overrides", micro)
    else:
        reading.copy("device_train_microbatch_size", MICRO_BATCH, size)
    _check_evaluation(reading, draft)


def _count_ranks(draft: Draft, program: TrainingProgram) -> None:
    """What starts it says how many GPUs there are; no key does."""
    if counts := program.num_gpus:
        draft.put(NUM_GPUS, prod(each.value for each in counts if not each.unknown), *counts)
    message = f"nothing says on how many GPUs it runs; give {NUM_GPUS} in overrides"
    draft.require(NUM_GPUS, message)


def _check_evaluation(reading: Reading, draft: Draft) -> None:
    """Evaluation may take more samples at once than a step."""
    samples = reading.value("device_eval_batch_size", 1, size)
    setting, trained = reading.get("device_eval_batch_size"), draft.get(MICRO_BATCH)
    if setting is not None and samples > (trained if isinstance(trained, int) else 0):
        draft.leave_out(setting, evaluation(samples, "composer/trainer/trainer.py: _eval_loop"))


def _share_out(reading: Reading, draft: Draft) -> bool:
    """FSDP where it has a section, which reduces after every micro-batch, else DDP. On one GPU the
    section changes nothing, its recompute neither (command_utils/train.py: Reverting to DDP).
    """
    own = [
        each
        for key, each in reading.settings.items()
        if key.startswith(f"{FSDP}.") or (key == FSDP and each.value is not None)
    ]
    if draft.settled(NUM_GPUS) == 1:
        for each in own:
            reading.pass_by(each.key)
        own = []
    if not own:
        reading.get(FSDP)
        draft.default("/framework/data_parallel_engine", "ddp", WHOSE)
        return False
    draft.put("/framework/data_parallel_engine", "fsdp1", own[0])
    draft.default("/framework/sync_each_micro_batch", True, "Composer")
    strategy = reading.get(f"{FSDP}.sharding_strategy")
    asked = "FULL_SHARD" if strategy is None else str(strategy.value).upper()
    if strategy is None:
        draft.default(SHARDING, STRATEGIES[asked], "Composer")
    elif asked in STRATEGIES:
        draft.put(SHARDING, STRATEGIES[asked], strategy)
    else:
        draft.complain(strategy, f"of these {', '.join(STRATEGIES)} are read", SHARDING)
    again = reading.get(f"{FSDP}.activation_checkpointing")
    if again is not None and reading.value(again.key, False, flag):
        draft.put("/training/recompute/granularity", "full", again)
        reentrant = f"{FSDP}.activation_checkpointing_reentrant"
        if not reading.copy(reentrant, "/training/recompute/use_reentrant", flag):
            draft.default("/training/recompute/use_reentrant", True, "Composer")
    else:
        reading.get(f"{FSDP}.activation_checkpointing_reentrant")
    host = reading.get(f"{FSDP}.activation_cpu_offload")
    if host is not None and reading.value(host.key, False, flag):
        draft.put("/training/offload_activations", True, host)
    return asked != "NO_SHARD"


def _precision(reading: Reading, draft: Draft, *, sharded: bool, adapters: bool) -> None:
    """Weights are fp32, frozen ones too; FSDP gathers narrow ones."""
    pointer, setting = "/training/precision", reading.get("precision")
    reduced = reading.get(f"{FSDP}.mixed_precision")
    kind = "amp_bf16" if setting is None else str(setting.value)
    asked = "DEFAULT" if reduced is None else str(reduced.value).upper()
    value: Any = "autocast-bf16"
    if kind == "fp32":
        value = "fp32"
    elif kind != "amp_bf16":
        assert setting is not None
        draft.complain(setting, "of these amp_bf16 and fp32 are read", pointer)
        return
    elif sharded and asked in REDUCED:
        value = {
            "params": "fp32",
            "compute": "bf16",
            "gradients": REDUCED[asked],
            "main_params": "fp32",
        }
    elif sharded:
        assert reduced is not None
        draft.complain(reduced, f"of these {', '.join(REDUCED)} are read", pointer)
        return
    settings = [each for each in (setting, reduced) if each is not None]
    if settings:
        draft.put(pointer, value, *settings)
    else:
        draft.default(pointer, value, WHOSE)
    if adapters and kind != "fp32":
        draft.default(f"{PEFT}/base_dtype", "fp32", WHOSE)


def _adapters(reading: Reading, draft: Draft) -> bool:
    """Adapters of PEFT, by the names of its LoraConfig."""
    section = "model.peft_config"
    kind, rank = reading.get(f"{section}.peft_type"), reading.get(f"{section}.r")
    setting = kind or rank
    if setting is None:
        return False
    if kind is not None and str(kind.value).upper() != "LORA":
        draft.leave_out(kind, f"adapters of {kind.value} are not modelled")
        return False
    draft.put(f"{PEFT}/method", "lora", setting)
    reading.copy(f"{section}.r", f"{PEFT}/r", size)
    reading.copy(f"{section}.lora_dropout", f"{PEFT}/dropout")
    targets = reading.get(f"{section}.target_modules")
    pointer = f"{PEFT}/target_modules"
    if targets is None:
        draft.require(pointer, "PEFT's own choice of modules is not known: name them", setting)
    elif targets.value == "all-linear":
        draft.put(pointer, "all-linear", targets)
    else:
        reading.copy(targets.key, pointer, names)
    return True


def _optimizer(reading: Reading, draft: Draft) -> None:
    """Composer's steps go from parameter to parameter."""
    setting = reading.get("optimizer.name")
    known = None if setting is None else OPTIMIZERS.get(str(setting.value))
    if setting is not None and known is None:
        draft.complain(setting, f"of these {', '.join(OPTIMIZERS)} are read")
    elif setting is not None:
        draft.put("/training/optimizer/name", known, setting)
        draft.default("/training/optimizer/implementation", "for-loop", "Composer")


def _kept_logits(reading: Reading, draft: Draft) -> None:
    """Metrics of training read the logits [b s, V]: a copy in fp32, and what a softmax makes."""
    metrics = reading.get("model.use_train_metrics")
    rows = draft.get("/model/spec/vocab_size") or text_config_of(draft).get("vocab_size")
    sizes = rows, draft.get(LENGTH), draft.get(MICRO_BATCH)
    if metrics is not None and not reading.value(metrics.key, True, flag):
        return
    setting = metrics or reading.get("max_seq_len")
    if setting is None:
        return
    why = "metrics of training read the logits, whole and in fp32"
    source = "composer/trainer/trainer.py: train_metrics; llmfoundry/models/hf/hf_causal_lm.py"
    known = all(isinstance(each, int) for each in sizes)
    effect = Effect(why, "raises", source, bytes=2 * FP32 * prod(sizes) if known else 0)
    draft.leave_out(Setting("use_train_metrics", True, setting.file, setting.line), effect)
