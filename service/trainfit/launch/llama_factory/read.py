"""A run of LLaMA-Factory: its own keys where they differ from Trainer's, on Trainer's reading."""

from __future__ import annotations

from dataclasses import replace

from trainfit.launch.allocator import read_allocator
from trainfit.launch.deepspeed.beside import configs_of
from trainfit.launch.deepspeed.zero import put_zero
from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.keys import table_of
from trainfit.launch.llama_factory.freezing import put_frozen
from trainfit.launch.llama_factory.keys import RENAMED
from trainfit.launch.program import TrainingProgram
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.adapters import PEFT, put_decomposed, put_stored
from trainfit.launch.transformers.engine import TrainerEngine, put_communication
from trainfit.launch.transformers.evaluating import check_evaluation
from trainfit.launch.transformers.format import files_of, flags_of_program
from trainfit.launch.transformers.loading import put_module_loading
from trainfit.launch.transformers.precision import Weights, checkpoint_dtype, put_precision
from trainfit.launch.transformers.preferences import put_preference
from trainfit.launch.transformers.reading import (
    finish,
    gathered,
    put_layout,
    put_named_model,
    settle_releases,
)
from trainfit.launch.transformers.releases import named_releases
from trainfit.launch.transformers.run import Trainer, TrainerRun
from trainfit.launch.transformers.source import as_int
from trainfit.launch.transformers.step import (
    LENGTH,
    RECOMPUTE,
    REENTRANT,
    put_batch,
    put_loss,
    put_optimizer,
    reentrant_is_said,
    reentrant_matters,
)
from trainfit.launch.transformers.targets import put_linears
from trainfit.launch.transformers.trainers import (
    OTHER,
    PREFERENCES,
    refuse_offloaded_copy,
)
from trainfit.specs.loss import LogProbs

WHOSE = "LLaMA-Factory"
OWN_KEYS = ("finetuning_type", "cutoff_len", "lora_target", "template")
COMMANDS = ("llamafactory-cli", "lmf", "llamafactory")
LENGTH_BY_DEFAULT = 2048
RANK_BY_DEFAULT = 8


def recognises(program: TrainingProgram) -> bool:
    """Its command to train, its train.py, or a file with keys of its own."""
    name = program.name or ""
    if name in COMMANDS:
        return [word.text for word in program.arguments[:1]] in ([], ["train"])
    if name.startswith("llamafactory"):
        return True
    own = set(OWN_KEYS)
    return len(flags_of_program(program) & own) > 1 or any(
        len(keys.keys() & own) > 1 for keys in files_of(program)
    )


def read(program: TrainingProgram, draft: Draft, version: str | None) -> None:
    """Read a run. A version without a name is that of LLaMA-Factory."""
    named = named_releases(version, "llamafactory")
    beside = configs_of(WHOSE)
    trainer = Trainer("trainer")
    run = gathered(program, draft, named, RENAMED, trainer, dotlist=True, beside=beside)
    draft.default("/framework/name", "transformers", "the format of the launch")
    put_named_model(run)
    settle_releases(run)
    engine, num_gpus = put_layout(run)
    run = _staged(run)
    size = put_batch(run, num_gpus)
    length = _put_length(run)
    put_optimizer(run)
    _put_muon(run)
    _put_recompute(run)
    _put_attention(run)
    put_loss(run, size, length)
    put_communication(run, engine)
    check_evaluation(run, size)
    adapters = _put_tuning(run, engine)
    if reentrant_matters(engine) and draft.get(RECOMPUTE) is not None:
        _put_reentrant(run)
    put_precision(run, engine, adapters=adapters, loaded=_loaded(run, adapters=adapters))
    if engine.name == "deepspeed":
        put_zero(run)
        if adapters:
            draft.default(f"{PEFT}/adapter_dtype", "bf16", "DeepSpeed, which casts its weights")
    read_allocator(program.environment, draft)
    put_module_loading(run)
    finish(run, table_of("trainfit.launch.transformers", "trainer") | table_of(__package__))


def _staged(run: TrainerRun) -> TrainerRun:
    """The run with the loop of its stage. pt and sft are Trainer's own."""
    stage = run.arguments.get("stage")
    if stage is None or stage.value in ("sft", "pt"):
        return run
    if stage.value == "rm":
        run.draft.leave_out(stage, LOGITS_BESIDE_VALUES)
        return replace(run, trainer=Trainer("values", stage))
    if stage.value in ("dpo", "kto"):
        return _preferring(run, stage)
    run.draft.leave_out(stage, OTHER)
    return replace(run, trainer=Trainer("other", stage))


def _preferring(run: TrainerRun, stage: Setting) -> TrainerRun:
    """The run with a loss of pairs or of single samples, which has a second model where it
    compares with one and no adapters can be switched off.
    """
    pairs = stage.value == "dpo"
    alone = pairs and run.arguments.word("pref_loss") in ("orpo", "simpo")
    named = run.arguments.get("ref_model")
    own = run.arguments.word("finetuning_type", "lora") == "lora" and named is None
    by: LogProbs = "llama-factory" if pairs else "llama-factory-kto"
    put_preference(run, stage, "none" if alone else "base" if own else "copy", by)
    refuse_offloaded_copy(run, stage)
    if named is not None and not alone:
        run.draft.leave_out(named, PREFERENCES)
    return replace(run, trainer=Trainer("dpo" if pairs else "kto", stage))


LOGITS_BESIDE_VALUES = Effect(
    "values are of the last hidden states, and logits are made besides, and widened",
    "raises",
    "LLaMA-Factory's train/rm/trainer.py, TRL's AutoModelForCausalLMWithValueHead",
    within={"/training/loss/cross_entropy": "unfused"},
)


def _put_muon(run: TrainerRun) -> None:
    """Its Muon keeps one moment of the matrices of layers, and Adam's two of the rest.

    Source: LLaMA-Factory's third_party/muon/muon.py.
    """
    setting = run.arguments.get("use_muon")
    if setting is not None and run.arguments.is_on("use_muon"):
        run.draft.put("/training/optimizer/name", "muon", setting)
        run.draft.put("/training/optimizer/implementation", "for-loop", setting)


def _put_length(run: TrainerRun) -> int | None:
    run.arguments.get("model_max_length")
    setting = run.arguments.get("max_length")
    if setting is None:
        run.draft.default(LENGTH, LENGTH_BY_DEFAULT, WHOSE)
        return LENGTH_BY_DEFAULT
    run.draft.put(LENGTH, setting.value, setting)
    return as_int(setting.value)


def _put_recompute(run: TrainerRun) -> None:
    """Every layer is made again unless that is switched off."""
    setting = run.arguments.get("disable_gradient_checkpointing")
    run.arguments.get("gradient_checkpointing")
    if not run.arguments.is_on("disable_gradient_checkpointing"):
        if setting is None:
            run.draft.default(RECOMPUTE, "full", WHOSE)
        else:
            run.draft.put(RECOMPUTE, "full", setting)


def _put_reentrant(run: TrainerRun) -> None:
    """Source: hparams/model_args.py (use_reentrant_gc)."""
    if not reentrant_is_said(run, "use_reentrant_gc"):
        run.draft.default(REENTRANT, True, WHOSE)


FLASH_ATTN = {"disabled": "eager", "sdpa": "sdpa", "fa2": "flash", "fa3": "flash", "auto": "auto"}


def _put_attention(run: TrainerRun) -> None:
    setting = run.arguments.get("flash_attn")
    if setting is None:
        return
    backend = FLASH_ATTN.get(run.arguments.word("flash_attn"))
    if backend is None:
        run.draft.complain(setting, f"{setting.value!r} is none of {', '.join(FLASH_ATTN)}")
    else:
        run.draft.put("/training/attention/backend", backend, setting)


OF_LORA = ("lora_r", "lora_dropout", "lora_target_modules", "lora_modules_to_save", "use_dora")


def _put_tuning(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Set what is trained, and tell whether that is adapters; they are the default."""
    arguments, draft = run.arguments, run.draft
    kind = arguments.get("finetuning_type")
    name = "lora" if kind is None else str(kind.value)
    if name in ("lora", "full", "freeze"):
        put_frozen(run, engine, name)
    else:
        assert kind is not None
        draft.leave_out(kind, f"training by {name} is not modelled")
    if name != "lora":
        for key in OF_LORA:
            arguments.get(key)
        _put_quantised(run, adapters=False)
        return False
    if kind is None:
        draft.default(f"{PEFT}/method", "lora", WHOSE)
    else:
        draft.put(f"{PEFT}/method", "lora", kind)
    if not arguments.copy("lora_r", f"{PEFT}/r"):
        draft.default(f"{PEFT}/r", RANK_BY_DEFAULT, WHOSE)
    arguments.copy("lora_dropout", f"{PEFT}/dropout")
    targets, words = arguments.get("lora_target_modules"), arguments.words("lora_target_modules")
    if targets is None:
        draft.default(f"{PEFT}/target_modules", "all-linear", WHOSE)
    elif words == ["all"]:
        draft.put(f"{PEFT}/target_modules", "all-linear", targets)
    else:
        put_linears(draft, f"{PEFT}/target_modules", words, targets)
    if (saved := arguments.get("lora_modules_to_save")) is not None:
        draft.put(f"{PEFT}/modules_to_save", arguments.words("lora_modules_to_save"), saved)
    put_decomposed(run, "use_dora")
    _put_quantised(run, adapters=True)
    return True


def _put_quantised(run: TrainerRun, *, adapters: bool) -> None:
    """Set how frozen weights are stored. FSDP can share out 4 bits as they are stored."""
    arguments, draft = run.arguments, run.draft
    bits = arguments.get("quantization_bit")
    method = arguments.word("quantization_method", "bnb")
    arguments.get("quantization_type")
    nested = arguments.get("use_bnb_nested_quant")
    if bits is None:
        return
    number = as_int(bits.value)
    if not adapters or number not in (4, 8) or method not in ("bnb", "bitsandbytes"):
        draft.leave_out(bits, "only bitsandbytes' 4 and 8 bits below adapters are modelled")
        return
    put_stored(run, "nf4" if number == 4 else "int8", bits, nested)
    if number == 4 and nested is None:
        draft.default(f"{PEFT}/double_quantization", True, WHOSE)


def _loaded(run: TrainerRun, *, adapters: bool) -> Weights:
    """Frozen weights stay in the checkpoint's type; what is trained is widened, unless pure."""
    pure = run.arguments.get("pure_bf16")
    if run.arguments.is_on("pure_bf16"):
        return "bf16", pure
    return (checkpoint_dtype(run) if adapters else "fp32"), None
