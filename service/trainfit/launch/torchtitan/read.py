"""A launch of torchtitan -> a draft of a job.

Sources: torchtitan's train.py, distributed/utils.py (maybe_enable_amp), components/ and
models/*/infra/parallelize.py at the releases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainfit.launch.allocator import read_allocator
from trainfit.launch.documents import TOML, mapping_in
from trainfit.launch.draft import Draft, Reading
from trainfit.launch.keys import table_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.torchtitan.flavors import NO_LANGUAGE_MODELS, Flavor, flavor_of
from trainfit.launch.torchtitan.keys import (
    COPIED,
    DEFAULTS,
    DTYPES,
    OPTIMIZERS,
)
from trainfit.launch.torchtitan.layout import (
    EXPERT_TENSOR,
    Degrees,
    divide_experts,
    read_layout,
    read_pipeline,
    runs_fsdp,
)
from trainfit.launch.torchtitan.python_config import demand
from trainfit.launch.torchtitan.recipes import read_recipe
from trainfit.launch.torchtitan.releases import (
    RENAMED,
    TorchtitanRelease,
    every_key,
    release_named,
    releases_with,
)
from trainfit.launch.torchtitan.run import TorchtitanRun
from trainfit.launch.torchtitan.written import (
    command_line_settings,
    config_file,
    file_settings,
    is_started_by_script,
)
from trainfit.launch.values import flag, names, size, whole, word
from trainfit.specs.launch import LaunchFile

PROGRAMS = re.compile(r"torchtitan[./]train(\.py)?|run_(llama_)?train\.sh")
TABLES = {"job", "model", "training", "parallelism", "activation_checkpoint", "experimental"}
"""Tables of a TOML file by which it is known."""


def recognises(program: TrainingProgram) -> bool:
    """By its script or module; a train.py by its options; files by their tables."""
    if program.name is None:
        return any(_is_config(file) for file in program.files.values())
    name = program.name
    if PROGRAMS.fullmatch(name.removeprefix("./")) or re.search(rf"/({PROGRAMS.pattern})$", name):
        return True
    options = (word.text.replace("-", "_") for word in program.arguments)
    return name.rpartition("/")[2] == "train.py" and any(
        option.startswith("__job.config_file") for option in options
    )


def _is_config(file: LaunchFile) -> bool:
    found = mapping_in(file, "training", TOML) or {}
    return "training" in found and len(TABLES & found.keys()) > 1


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Read a launch as the release of this name takes it; unset: as each that has its keys."""
    options = command_line_settings(program)
    file = config_file(program, options)
    run = read_written(
        program, [*(file_settings(file) if file is not None else ()), *options], draft, version
    )
    _put_allocator(run)


def _put_allocator(run: TorchtitanRun) -> None:
    """Its script, which starts a file that is sent alone, may have segments grow."""
    by_command = run.program.name is not None and not is_started_by_script(run.program)
    whose = "PyTorch" if by_command else run.whose
    grows = run.release.grows_segments and not by_command
    if not grows:
        read_allocator(run.program.environment, run.draft)
    run.draft.default("/framework/expandable_segments", grows, whose)


def read_written(
    program: TrainingProgram, written: Sequence[Setting], draft: Draft, version: str | None
) -> TorchtitanRun:
    """Read what is written under torchtitan's keys; what is written later counts."""
    release = release_named(version) if version is not None else _possible(written, draft)
    settings = _under_one_name(written, release if version is not None else None, draft)
    run = TorchtitanRun(program, Reading(settings, draft), draft, release)
    draft.default("/framework/name", "torchtitan", run.whose)
    run.given("job.config_file", "module", "config")
    if release.python:
        demand(run)
    for key, pointer in COPIED.items():
        run.reading.copy(key, pointer)
    for pointer, value in DEFAULTS.items():
        draft.default(pointer, value, run.whose)
    degrees = read_layout(run)
    flavor = _model(run)
    run.idle.add(EXPERT_TENSOR)
    if flavor is None or flavor.experts:
        divide_experts(run, degrees)
    read_pipeline(run, degrees.pp, flavor.num_layers if flavor is not None else None)
    _batch(run, degrees)
    _precision(run, degrees)
    read_recipe(run)
    _recompute(run)
    _optimizer(run)
    _compile(run)
    _loss(run)
    _validation(run)
    _of_release(run)
    run.reading.close(table_of(__package__), run.idle)
    return run


def _possible(written: Sequence[Setting], draft: Draft) -> TorchtitanRelease:
    """A release that has every key of the launch, and the model that it names."""
    found = releases_with(frozenset(setting.key for setting in written))
    said = {setting.key: str(setting.value) for setting in written}
    name, flavor = said.get("model.name", "llama3"), said.get("model.flavor", "debugmodel")
    release = draft.fork.choose([r for r in found if flavor_of(name, flavor, r)] or found)
    draft.releases = f"torchtitan {release.name}"
    return release


def _under_one_name(
    written: Sequence[Setting], release: TorchtitanRelease | None, draft: Draft
) -> dict[str, Setting]:
    """Settings by the names they are read under; what is written later counts. A key that the
    release has not, where one is named, is left out.
    """
    found: dict[str, Setting] = {}
    for setting in written:
        name = RENAMED.get(setting.key, setting.key)
        if release is not None and setting.key in every_key() - release.keys:
            draft.leave_out(setting, f"torchtitan {release.name} has no such key")
            continue
        if (before := found.get(name)) is not None:
            if before.key != setting.key and before.file == setting.file:
                draft.complain(setting, f"says the same as {before.key}; give one of them")
            draft.ignore(before)
        found[name] = setting
    return found


def _model(run: TorchtitanRun) -> Flavor | None:
    """Read the model, and tell its flavour, if that is known."""
    given = run.given("model.name", "model.flavor")
    if run.draft.overridden("/model") is not None or run.release.python:
        return None
    name = str(run.reading.value("model.name", "llama3"))
    flavor = str(run.reading.value("model.flavor", "debugmodel"))
    found = flavor_of(name, flavor, run.release)
    if found is not None:
        run.decide("/model", found.model(run.release), "model.name", "model.flavor")
        return found
    if any(setting.unknown for setting in given):
        return None
    why = NO_LANGUAGE_MODELS.get(name)
    message = f"{run.whose} has no {name} {flavor} that is known; describe /model in overrides"
    run.draft.require("/model", f"{name} {why}" if why else message, given[0] if given else None)
    return None


def _batch(run: TorchtitanRun, degrees: Degrees) -> None:
    """With a pipeline, the local batch is cut into its micro-batches."""
    if TOKENS in run.release.keys:
        _tokens(run, degrees)
        return
    local = run.reading.value("training.local_batch_size", 8, size)
    total = run.reading.value("training.global_batch_size", -1, whole)
    count_key, size_key = "num_pp_microbatches", "pipeline_parallel_microbatch_size"
    by_count, by_size = f"parallelism.{count_key}", f"parallelism.{size_key}"
    if degrees.pp == 1:
        run.idle.update((by_count, by_size))
        run.decide("/training/micro_batch_size", local, "training.local_batch_size")
        if total > 0:
            run.draft.put(
                "/training/global_batch_size", total, *run.given("training.global_batch_size")
            )
        return
    if run.release.weighs_ends:
        micro = run.reading.value(by_size, 1, size)
        count = local // micro
    else:
        count = run.reading.value(by_count, degrees.pp, size)
        micro = local // count
    if micro * count != local or not micro:
        decisive = run.given(by_size, by_count, "training.local_batch_size", PIPELINE)
        message = f"{local} samples do not divide into micro-batches of a pipeline"
        run.draft.complain(decisive[0], message)
        return
    run.decide("/training/micro_batch_size", micro, by_size, by_count, "training.local_batch_size")
    run.decide("/training/num_microbatches", count, by_size, by_count, "training.local_batch_size")
    _accumulation(run, "training.global_batch_size", total, local * degrees.dp)


PIPELINE = "parallelism.pipeline_parallel_degree"
TOKENS = "training.num_tokens_per_microbatch_per_dp_rank"
STEP_TOKENS = "training.num_tokens_per_train_step"


def _tokens(run: TorchtitanRun, degrees: Degrees) -> None:
    """After v0.2.2 a micro-batch is a number of tokens, in which sequences are packed."""
    reading, draft = run.reading, run.draft
    length = reading.value("training.seq_len", 2048, size)
    tokens = reading.value(TOKENS, 16384, size)
    if tokens % length:
        run.decide("/training/seq_length", tokens, TOKENS, "training.seq_len")
        length = tokens
    run.decide("/training/micro_batch_size", tokens // length, TOKENS, "training.seq_len")
    total = reading.value(STEP_TOKENS, -1, whole)
    count_key = "parallelism.num_pp_microbatches"
    if degrees.pp == 1:
        run.idle.add(count_key)
        if total > 0 and total % length:
            draft.complain(run.given(STEP_TOKENS)[0], f"is no multiple of {length} tokens")
        elif total > 0:
            draft.put("/training/global_batch_size", total // length, *run.given(STEP_TOKENS))
        return
    count = reading.value(count_key, 1, size)
    run.decide("/training/num_microbatches", count, count_key)
    _accumulation(run, STEP_TOKENS, total, tokens * count * degrees.dp)


def _accumulation(run: TorchtitanRun, key: str, total: int, once: int) -> None:
    """Beside a pipeline gradients are not accumulated over more than one run of it."""
    if total > 0 and total != once:
        why = f"gradients of more than one run of the pipeline ({once}) are not modelled"
        for setting in run.given(key):
            run.draft.leave_out(setting, why)


def _precision(run: TorchtitanRun, degrees: Degrees) -> None:
    """FSDP gathers in the narrower type, and so does autocast multiply under DDP and on one GPU,
    where a release has it; where tensor or pipeline parallelism stand alone, nothing is narrowed.
    """
    keys = ("training.dtype", "training.mixed_precision_param", "training.mixed_precision_reduce")
    fields = ("params", "compute", "gradients")
    usual = ("float32", "bfloat16", "float32")
    alone = run.release.casts_alone and degrees.tp * degrees.pp == 1
    narrowed = runs_fsdp(run, degrees) or alone
    for key, field, default in zip(keys, fields, usual, strict=True):
        source = keys[0] if field == "compute" and not narrowed else key
        dtype = run.reading.value(source, usual[0] if source == keys[0] else default)
        if source != key:
            run.idle.add(key)
        if isinstance(dtype, str) and dtype in DTYPES:
            run.decide(f"/training/precision/{field}", DTYPES[dtype], source)
        elif given := run.given(source):
            run.draft.complain(given[0], f"must be one of {', '.join(DTYPES)}")


def _recompute(run: TorchtitanRun) -> None:
    """Whole layers, every so many of them, or operations: all but attention and every second
    matrix product.
    """
    mode_key, option_key = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
    mode, option = run.reading.value(mode_key, "selective"), run.reading.value(option_key, "2")
    granularity = "/training/recompute/granularity"
    if mode != "selective":
        run.idle.add(option_key)
        for setting in run.given(option_key):
            run.draft.ignore(setting)
    if mode == "full":
        run.decide(granularity, "full", mode_key)
    elif mode == "selective" and (option == "op" or run.release.python):
        run.decide(granularity, "selective", mode_key, option_key)
    elif mode == "selective" and re.fullmatch(r"[1-9]\d{0,3}", str(option)):
        run.decide(granularity, "full", mode_key, option_key)
        run.decide("/training/recompute/every_nth_layer", int(option), mode_key, option_key)
    elif mode == "selective":
        run.draft.complain(run.given(option_key)[0], "must be op or a number of layers")
    elif mode == "memory_budget":
        for setting in run.given(mode_key):
            run.draft.leave_out(setting, "what the compiler keeps within a budget is not modelled")
    elif mode != "none":
        message = "must be none, full, selective or memory_budget"
        run.draft.complain(run.given(mode_key)[0], message)


def _optimizer(run: TorchtitanRun) -> None:
    """torch's optimizers; in 2024 a flag made them fused, later a word says how they step."""
    name = run.reading.value("optimizer.name", "AdamW", word)
    pointer = "/training/optimizer/implementation"
    if name in OPTIMIZERS:
        run.decide("/training/optimizer/name", OPTIMIZERS[name].name, "optimizer.name")
    else:
        for setting in run.given("optimizer.name"):
            run.draft.leave_out(setting, f"the optimizer {name} of torchtitan is not modelled")
    if "optimizer.fused" in run.reading.settings or "optimizer.fused" in run.release.keys:
        fused = run.reading.value("optimizer.fused", False, flag)
        run.decide(pointer, "fused" if fused else "foreach", "optimizer.fused")
    elif run.reading.value("optimizer.implementation") == "fused_opt_states_bf16":
        settings = run.given("optimizer.implementation")
        run.draft.put(pointer, "fused", *settings)
        for moment in ("exp_avg_dtype", "exp_avg_sq_dtype"):
            run.draft.put(f"/training/optimizer/{moment}", "bf16", *settings)
    else:
        run.reading.copy("optimizer.implementation", pointer)


def _compile(run: TorchtitanRun) -> None:
    """Layers are compiled, and so is the loss since there is a switch for it, unless only one of
    them is named. A compiled loss is one kernel over the logits (components/loss.py).
    """
    switch, key, kind = "compile.enable", "compile.components", "/training/loss/cross_entropy"
    enabled = run.reading.value(switch, False, flag)
    if not enabled:
        run.idle.update((key, "compile.backend"))
    parts = set(run.reading.value(key, ["model", "loss"], names)) if enabled else set()
    run.decide("/framework/compile", "model" in parts, switch, key)
    if run.release.python:
        return  # which loss it is stands in the overrides
    if "loss" in parts and run.release.compiles_loss:
        run.decide(kind, "fused", switch, key)


def _loss(run: TorchtitanRun) -> None:
    key = "parallelism.disable_loss_parallel"
    if run.reading.get(key) is not None:
        whole_logits = run.reading.value(key, False, flag)
        run.draft.put("/framework/loss_parallel", not whole_logits, *run.given(key))


def _validation(run: TorchtitanRun) -> None:
    """Validation keeps nothing for backward: it matters only where it reads more tokens."""
    local, length = "validation.local_batch_size", "validation.seq_len"
    if not run.reading.value("validation.enable", False, flag):
        run.idle.update((local, length))
        return
    read = run.reading.value(local, 8, size) * run.reading.value(length, 2048, size)
    trained = [run.draft.get(f"/training/{name}") for name in ("micro_batch_size", "seq_length")]
    if run.release.python or not all(isinstance(each, int) for each in trained):
        return
    if read > trained[0] * trained[1]:
        why = f"validation reads {read} tokens at once, more than training, which is not modelled"
        for setting in run.given("validation.enable", local, length):
            run.draft.leave_out(setting, why)


def _of_release(run: TorchtitanRun) -> None:
    """What a release does whatever its keys say."""
    release, draft = run.release, run.draft
    if release.repeats_kv:
        draft.default("/training/attention/repeats_kv", True, run.whose)
    if not release.units_apart:
        draft.default("/framework/shard_embedding_and_head_apart", False, run.whose)
    if release.remakes_attention != "never":
        draft.default("/framework/remake_attention", release.remakes_attention, run.whose)
    if release.fuses_qkv:
        draft.default("/framework/fuse_qkv", True, run.whose)
    if release.collects_outputs:
        draft.default("/framework/collect_outputs", True, run.whose)
