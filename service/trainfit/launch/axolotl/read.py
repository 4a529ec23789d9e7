"""A run of axolotl: its own keys where they differ from Trainer's, on Trainer's reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainfit.launch.allocator import DIVISIONS, GROWS, VARIABLE, VARIABLES, read_allocator
from trainfit.launch.axolotl.experts import put_experts
from trainfit.launch.axolotl.freezing import put_frozen
from trainfit.launch.axolotl.kernels import put_kernels
from trainfit.launch.axolotl.keys import FSDP, LAUNCHED, RENAMED
from trainfit.launch.axolotl.preferences import with_loop
from trainfit.launch.axolotl.releases import with_pinned
from trainfit.launch.deepspeed.beside import configs_of
from trainfit.launch.deepspeed.zero import put_zero
from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.keys import table_of
from trainfit.launch.models import config_of, experts_of
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.adapters import PEFT, put_decomposed, put_stored
from trainfit.launch.transformers.added_tokens import leave_out_added_tokens
from trainfit.launch.transformers.changes import Release
from trainfit.launch.transformers.engine import STRATEGIES, TrainerEngine, put_communication
from trainfit.launch.transformers.evaluating import check_evaluation
from trainfit.launch.transformers.format import files_of, flags_of_program
from trainfit.launch.transformers.loading import put_module_loading
from trainfit.launch.transformers.precision import Weights, put_precision
from trainfit.launch.transformers.reading import finish, gathered, put_layout, put_named_model
from trainfit.launch.transformers.releases import named_releases
from trainfit.launch.transformers.run import Trainer, TrainerRun
from trainfit.launch.transformers.source import TrainerSource, as_bool
from trainfit.launch.transformers.step import (
    LENGTH,
    MICRO_BATCH,
    RECOMPUTE,
    REENTRANT,
    put_batch,
    put_length,
    put_loss,
    put_optimizer,
    reentrant_is_said,
    reentrant_matters,
)
from trainfit.launch.transformers.targets import put_linears

WHOSE = "axolotl"
OWN_KEYS = ("micro_batch_size", "sequence_len", "sample_packing", "lora_target_linear")
LENGTH_BY_DEFAULT = 512
COMMAND = "axolotl"
ROUNDS_NO_MORE: Release = (0, 17)
"""The release that demands torch 2.9, with which 0.16 left requests as they are."""
ROUNDED, MULTIPLE = "resize_token_embeddings_to_32x", 32
"""Rows of the embedding are rounded up to a multiple, where it has fewer."""
BESIDE = (
    "delinearize_llama4",
    "evaluate",
    "fetch",
    "inference",
    "merge_lora",
    "merge_sharded_fsdp_weights",
    "preprocess",
    "quantize",
    "vllm_serve",
)
"""Commands of axolotl's, and modules of axolotl.cli, that do not train."""


def recognises(program: TrainingProgram) -> bool:
    """Its command, its module, or a file with a base_model and keys of its own."""
    name = program.name or ""
    if name.startswith(COMMAND):
        asked = [word.text for word in program.arguments[:1]] if name == COMMAND else [name]
        return not any(each.rpartition(".")[2].replace("-", "_") in BESIDE for each in asked)
    if len(flags_of_program(program).intersection(OWN_KEYS)) > 1:
        return True
    return any(
        "base_model" in keys and any(own in keys for own in OWN_KEYS) for keys in files_of(program)
    )


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Read a run. A version without a name is that of axolotl."""
    named = with_pinned(named_releases(version, "axolotl"))
    trainer = Trainer("trainer")
    beside = configs_of(WHOSE)
    run = gathered(program, draft, named, RENAMED, trainer, pinned=True, beside=beside)
    run = _launched(run)
    draft.default("/framework/name", "transformers", "the format of the launch")
    put_named_model(run)
    engine, num_gpus = put_layout(run, filled=True)
    run = replace(with_loop(run), mixed=_mixed(run))
    if run.arguments.get("per_device_train_batch_size") is None:
        draft.default(MICRO_BATCH, 1, WHOSE)
    size = put_batch(run, num_gpus) or 1
    if run.arguments.get("max_length") is None:
        draft.default(LENGTH, LENGTH_BY_DEFAULT, WHOSE)
    length = put_length(run)
    _leave_out_balance(run, size, length)
    run.arguments.get("sample_packing")
    put_optimizer(run)
    _put_recompute(run)
    put_kernels(run)
    if (tokens := run.arguments.get("tokens")) is not None and isinstance(tokens.value, list):
        leave_out_added_tokens(run, tokens, len(tokens.value), "axolotl's loaders/tokenizer.py")
    rounded = run.arguments.get(ROUNDED)
    if rounded is not None and as_bool(rounded.value):
        leave_out_added_tokens(run, rounded, MULTIPLE - 1, "axolotl's loaders/model.py")
    put_loss(run, size, length)
    put_communication(run, engine)
    if run.arguments.get("per_device_eval_batch_size") is None:
        run.arguments.get("eval_strategy")
    else:
        check_evaluation(run, size)
    adapters = _put_adapters(run, engine)
    if reentrant_matters(engine):
        _put_reentrant(run)
    put_frozen(run, adapters=adapters)
    own = engine.name == "fsdp2"  # axolotl/monkeypatch/accelerate/fsdp2.py (fsdp2_prepare_model)
    put_precision(run, engine, adapters=adapters, loaded=_loaded(run), widens=not own)
    if engine.name == "deepspeed":
        put_zero(run)
    _put_allocator(program, draft, named)
    put_module_loading(run)
    finish(run, table_of(__package__))


def _put_allocator(program: TrainingProgram, draft: Draft, named: Mapping[str, Release]) -> None:
    """Its command has segments grow unless one of two variables of PyTorch's says anything, and
    requests rounded before 0.17 (src/axolotl/cli/main.py, utils/__init__.py:
    set_pytorch_cuda_alloc_conf), or nobody knows which release it is; modules of axolotl.cli do
    since 0.13 what PyTorch does.
    """
    if program.name == COMMAND and not program.environment.keys() & {VARIABLES[0], VARIABLE}:
        draft.default(GROWS, True, WHOSE)
        if named.get("axolotl", ()) < ROUNDS_NO_MORE:
            draft.default(DIVISIONS, [16], WHOSE)
    else:
        read_allocator(program.environment, draft)


SHARDING = (
    "fsdp_version",
    "fsdp_auto_wrap_policy",
    "fsdp_sharding_strategy",
    "fsdp_use_orig_params",
)
"""Keys of fsdp_config any of which tells that FSDP runs, where no list does."""


def _launched(run: TrainerRun) -> TrainerRun:
    """The run with what axolotl hands to accelerate among accelerate's settings."""
    arguments = dict(run.arguments.settings)
    accelerate = dict(run.accelerate.settings)
    values: dict[str, Any] = {}
    for name in tuple(arguments):
        flag = LAUNCHED.get(name)
        if name.startswith(FSDP):
            flag = "fsdp_" + name[len(FSDP) :].removeprefix("fsdp_")
        if flag is not None:
            accelerate[flag] = arguments.pop(name)
    listed = arguments.pop("fsdp", None)
    shards = (accelerate[name] for name in SHARDING if name in accelerate)
    named = listed if listed is not None and listed.value else next(shards, None)
    if named is not None and "deepspeed" not in arguments:
        accelerate["distributed_type"] = named
        values["distributed_type"] = "FSDP"
    elif listed is not None:
        run.draft.recognise(listed)
    for word in map(str.upper, _words(listed.value) if listed is not None else ()):
        flag = "fsdp_sharding_strategy" if word in STRATEGIES else "fsdp_offload_params"
        if listed is not None and flag not in accelerate and word in (*STRATEGIES, "OFFLOAD"):
            accelerate[flag] = listed
            values[flag] = word if word in STRATEGIES else True
    source = TrainerSource(accelerate, run.draft, values)
    return replace(run, arguments=TrainerSource(arguments, run.draft), accelerate=source)


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else str(value).split()


def _put_recompute(run: TrainerRun) -> None:
    """Checkpoints stay on the GPU with true alone; axolotl has three ways to the host."""
    setting = run.arguments.get("gradient_checkpointing")
    offloading = run.arguments.get("activation_offloading")
    if offloading is not None and as_bool(offloading.value) is None:
        run.draft.leave_out(offloading, ELSEWHERE)
    elif offloading is not None and as_bool(offloading.value):
        run.draft.put("/training/offload_activations", True, offloading)
    if setting is None:
        return
    switch = as_bool(setting.value)
    if switch is None:
        run.draft.put(RECOMPUTE, "full", setting)
        run.draft.leave_out(setting, ELSEWHERE)
    elif switch:
        run.draft.put(RECOMPUTE, "full", setting)


BALANCES = ("model_config.output_router_logits", "overrides_of_model_config.output_router_logits")


def _leave_out_balance(run: TrainerRun, size: int, length: int | None) -> None:
    """What the loss that balances experts keeps of all L layers at once: the router's logits [L b
    s, E] as they are and in fp32, and the mask [L b s, k, E] of whole numbers and in fp32.

    Source: transformers/models/mixtral/modeling_mixtral.py (load_balancing_loss_func).
    """
    given = next((each for key in BALANCES if (each := run.arguments.get(key))), None)
    if given is None or not as_bool(given.value):
        return
    config = config_of(run.draft) or {}
    experts = config.get("num_local_experts") or config.get("num_experts")
    layers, chosen = config.get("num_hidden_layers"), config.get("num_experts_per_tok")
    why = "the loss that balances experts keeps the router's logits of all layers"
    if not (experts and layers and chosen and length):
        run.draft.leave_out(given, f"{why}, which is not modelled")
        return
    number = layers * size * length * experts * (3 * 4 + chosen * (8 + 4))
    source = "transformers/models/mixtral/modeling_mixtral.py: load_balancing_loss_func"
    run.draft.leave_out(given, Effect(why, "raises", source, bytes=number))


def _put_reentrant(run: TrainerRun) -> None:
    """axolotl asks for it unless told otherwise, or the model cannot be run so (Gemma 4)."""
    if run.draft.get(RECOMPUTE) is None or reentrant_is_said(run):
        return
    if not str((config_of(run.draft) or {}).get("model_type")).startswith("gemma4"):
        run.draft.default(REENTRANT, True, WHOSE)


ELSEWHERE = Effect(
    "what is kept for backward waits on the host or on a disk, which is not modelled",
    "lowers",
    "axolotl/monkeypatch/gradient_checkpointing",
)


def _put_adapters(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Set the adapters, if there are any, and tell it."""
    arguments, draft = run.arguments, run.draft
    kind = arguments.get("adapter")
    quantised = [key for key in ("load_in_4bit", "load_in_8bit") if arguments.is_on(key)]
    if kind is None or kind.value not in ("lora", "qlora"):
        for key in OF_LORA:
            arguments.get(key)
        if kind is not None:
            draft.leave_out(kind, f"adapters of {kind.value} are not modelled")
        for key in quantised:
            setting = arguments.get(key)
            assert setting is not None
            draft.leave_out(setting, "quantised weights are frozen, and there are no adapters")
        return False
    draft.put(f"{PEFT}/method", "lora", kind)
    arguments.copy("lora_r", f"{PEFT}/r")
    arguments.copy("lora_dropout", f"{PEFT}/dropout")
    _put_targets(run)
    saved = arguments.get("lora_modules_to_save")
    if saved is not None:
        draft.put(f"{PEFT}/modules_to_save", arguments.words("lora_modules_to_save"), saved)
    for key in quantised:
        _put_stored(run, key)
    if quantised and experts_of(draft):
        put_experts(run, engine, quantised[0])
    if engine.name == "deepspeed":
        draft.default(f"{PEFT}/adapter_dtype", "bf16", "DeepSpeed, which casts its weights")
    _put_lora_kernels(run, engine, kind)
    put_decomposed(run, "peft_use_dora")
    return True


def _put_stored(run: TrainerRun, key: str) -> None:
    """4 bits are nf4 with quantised scales, stored so that FSDP can share them out."""
    setting = run.arguments.get(key)
    assert setting is not None
    put_stored(run, "nf4" if key == "load_in_4bit" else "int8", setting, None)
    if key == "load_in_4bit":
        run.draft.default(f"{PEFT}/double_quantization", True, WHOSE)


TARGETS = ("lora_target_modules", "lora_target_linear")


def _put_targets(run: TrainerRun) -> None:
    arguments, pointer = run.arguments, f"{PEFT}/target_modules"
    listed, linear = (arguments.get(key) for key in TARGETS)
    if linear is not None and arguments.is_on("lora_target_linear"):
        run.draft.put(pointer, "all-linear", linear)
    elif listed is not None:
        put_linears(run.draft, pointer, arguments.words("lora_target_modules"), listed)
    else:
        run.draft.require(pointer, f"nothing says what is adapted; give {pointer} in overrides")


LORA_KERNELS: Mapping[str, str] = {
    "lora_qkv_kernel": "qkv",
    "lora_o_kernel": "o",
    "lora_mlp_kernel": "mlp",
}
OF_EMBEDDINGS = "lora_embedding_kernel"
FUSED = f"{PEFT}/fused"
OF_LORA = (
    *("lora_r", "lora_dropout", *TARGETS, "lora_modules_to_save"),
    *(*LORA_KERNELS, OF_EMBEDDINGS, "quantize_moe_experts", "peft_use_dora"),
)
SINCE = Effect(
    "axolotl turns its kernels for LoRA on where nothing says otherwise (lora_mlp_kernel: false): "
    "not before 0.9.2",
    "raises",
    "axolotl/utils/schemas/config.py: check_auto_enable_lora_kernels",
    within={FUSED: []},
)


def _put_lora_kernels(run: TrainerRun, engine: TrainerEngine, adapter: Setting) -> None:
    """Set what runs with its adapters as one function: what is set, or all where nothing is."""
    settings = [run.arguments.get(key) for key in LORA_KERNELS]
    on = [part for key, part in LORA_KERNELS.items() if run.arguments.is_on(key)]
    if any(settings):
        run.draft.put(FUSED, on, *[each for each in settings if each is not None])
    elif _turns_kernels_on(run, engine):
        run.draft.default(FUSED, list(LORA_KERNELS.values()), WHOSE)
        run.draft.leave_out(adapter, SINCE)
    of_embeddings = run.arguments.get(OF_EMBEDDINGS)
    targets = run.arguments.words("lora_target_modules")
    if of_embeddings is not None and run.arguments.is_on(OF_EMBEDDINGS):
        if "embed_tokens" in targets:
            run.draft.leave_out(of_embeddings, EMBEDDINGS)
        else:
            run.draft.ignore(of_embeddings)


EMBEDDINGS = Effect(
    "axolotl's kernel for adapters of embeddings keeps fewer activations, and is not modelled",
    "lowers",
    "axolotl/kernels/lora.py: what save_for_backward has (LoRA_Embedding)",
)


def _turns_kernels_on(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Source: check_auto_enable_lora_kernels of the schema, since 0.9.2."""
    settings = run.arguments.settings
    plain = OF_EMBEDDINGS in settings and settings[OF_EMBEDDINGS].value is not None
    eight = run.arguments.is_on("load_in_8bit") and run.arguments.word("adapter") == "lora"
    remote = settings.get("trust_remote_code")
    trusted = remote is not None and as_bool(remote.value) is True
    return not (plain or eight or trusted or engine.name == "fsdp1" or "rl" in settings)


def _mixed(run: TrainerRun) -> tuple[str, Setting | None]:
    """The arithmetic. bf16 is auto where nothing is said, which is on for a card that has it, and
    full is arithmetic in the weights' own type.
    """
    arguments = run.arguments
    for key in ("fp16", "bf16_alone", "fp16_alone"):
        arguments.get(key)
    for kind in ("bf16", "fp16"):
        alone, setting = arguments.get(f"{kind}_alone"), arguments.get(kind)
        if alone is not None and arguments.is_on(f"{kind}_alone"):
            return kind, alone
        if setting is not None and setting.value == "full":
            return "no", setting
        if setting is not None and (setting.value == "auto" or arguments.is_on(kind)):
            return kind, setting
        if kind == "bf16" and setting is None and not arguments.is_on("fp16"):
            return "bf16", None
    return "no", arguments.get("bf16")


def _loaded(run: TrainerRun) -> Weights:
    """Weights are loaded in the type of the arithmetic."""
    mixed, setting = _mixed(run)
    full = setting is not None and setting.value == "full"
    return ("bf16" if full else mixed if mixed != "no" else "fp32"), setting
