"""In which data types a run keeps its weights and computes.

Weights come as from_pretrained loads them; mixed precision stands on top of that. DeepSpeed casts
what it is given, and FSDP under mixed precision widens what is trained (accelerate's accelerator.py
and utils/fsdp_utils.py).
"""

from __future__ import annotations

import re
from typing import Any

from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import (
    LEAVES_QUANTISED_BASE,
    LOADS_CHECKPOINTS_DTYPE,
    LOADS_FP32,
    MIXES_BF16,
)
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.launch.transformers.run import TrainerRun, is_trl, need
from trainfit.launch.transformers.source import as_bool

PRECISION = "/training/precision"
BASE = "/training/peft/base_dtype"
DTYPES = {
    "float32": "fp32",
    "fp32": "fp32",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
}
MIXED = ("no", "bf16", "fp16", "fp8")


Weights = tuple[str | None, Setting | None]
"""The data type of weights, None where it is not known, and the setting that says so."""


def put_precision(
    run: TrainerRun,
    engine: TrainerEngine,
    *,
    adapters: bool,
    loaded: Weights | None = None,
    widens: bool = True,
) -> None:
    """Set the data types. `loaded` are the weights of a tool that loads them in its own way, and
    `widens` tells whether engines that shard widen what is trained, as accelerate's do. Complains
    where the weights' type decides and is not known.
    """
    if engine.name == "deepspeed":
        _weights(run)
        if (decided := _deepspeed(run)) is None:
            return
        value, settings = decided
    else:
        mixed, mixing = mixed_precision(run)
        weights, loading = loaded or _weights(run)
        settings = tuple(each for each in (mixing, loading) if each is not None)
        if mixed == "fp8":
            assert mixing is not None
            run.draft.leave_out(mixing, "fp8 under accelerate is not modelled")
            mixed = "bf16"
        widened = widens and engine.sharded and mixed != "no" and not adapters
        if weights is None and not widened:
            _put_widest(run, mixed, engine, loading, adapters=adapters)
            return
        value, base = types_of(mixed, weights or "fp32", engine, adapters=adapters, widens=widens)
        if base is not None and not _is_prepared(run, engine):
            _put(run, BASE, base, loading)
        elif base is not None and mixed == "bf16" and _narrows_ends(run):
            _put(run, BASE, "fp32-norms", loading)
    _put(run, PRECISION, value, *settings)


def _put_widest(
    run: TrainerRun, mixed: str, engine: TrainerEngine, loading: Setting | None, *, adapters: bool
) -> None:
    """A script that does not say how it loads weights has them in fp32 at most. Complains of a
    checkpoint whose type is not known, and below adapters of a loop that is no Trainer's.
    """
    asks = adapters and run.trainer.kind == "script"
    if asks or loading is not None or not _loads_in_its_own_way(run):
        need(run.draft, PRECISION, "the data type of the loaded weights is not known", loading)
        return
    if run.draft.overridden(PRECISION) is not None:
        return
    widest, base = types_of(mixed, "fp32", engine, adapters=adapters)
    narrow, narrow_base = types_of(mixed, "bf16", engine, adapters=adapters)
    within = {PRECISION: narrow} | ({} if narrow_base is None else {BASE: narrow_base})
    run.draft.default(PRECISION, widest, UNTOLD)
    if base is not None:
        run.draft.default(BASE, base, UNTOLD)
    effect = Effect(
        "the data type of the loaded weights is not known: fp32, or bf16",
        "lowers",
        "transformers' from_pretrained (dtype)",
        within=within,
    )
    run.draft.leave_out(Setting("dtype", None, run.program.name or "argv", None), effect)


UNTOLD = "Trainfit: nothing says that weights are narrower"
EXAMPLES = re.compile(r"(.*[./])?run_\w+(\.py)?")
"""Scripts of transformers' own, which load weights as from_pretrained does by itself."""


def _loads_in_its_own_way(run: TrainerRun) -> bool:
    """Whether a script of another's makes the model, of which only the arguments are known; a
    release that is named is what it is taken for.
    """
    if run.trainer.kind == "script":
        return True
    name = run.program.name or ""
    known = run.known or EXAMPLES.fullmatch(name) is not None
    of_another = run.trainer.kind == "trainer" and run.program.is_python and not known
    return of_another and run.releases.named("transformers") is None


def _put(run: TrainerRun, pointer: str, value: Any, *settings: Setting | None) -> None:
    """Set a field by what says it, else as the default of the program."""
    given = [each for each in settings if each is not None]
    if given:
        run.draft.put(pointer, value, *given)
    else:
        run.draft.default(pointer, value, "TRL" if is_trl(run) else "transformers")


def _is_prepared(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Whether TRL widens what is not quantised of a base (prepare_model_for_kbit_training): not
    that of 4 bits which FSDP has loaded on the host (is_sharded_qlora).
    """
    in_4_bits, in_8_bits = (run.arguments.is_on(f"load_in_{bits}bit") for bits in (4, 8))
    on_host = engine.name in ("fsdp1", "fsdp2") and (
        run.accelerate.is_on("fsdp_cpu_ram_efficient_loading")
        or run.arguments.is_on("fsdp_config.cpu_ram_efficient_loading")
    )
    quantised = in_8_bits or (in_4_bits and not on_host)
    return is_trl(run) and quantised and not run.releases.has(LEAVES_QUANTISED_BASE)


def _narrows_ends(run: TrainerRun) -> bool:
    """Whether TRL makes embedding and head of a base of 4 bits narrow again under bf16
    (trainer/utils.py: peft_module_casting_to_bf16), as all trainers do but that of rewards.
    """
    return run.arguments.is_on("load_in_4bit") and run.trainer.kind != "reward"


def types_of(
    mixed: str, weights: str, engine: TrainerEngine, *, adapters: bool, widens: bool = True
) -> tuple[Any, str | None]:
    """The data types of a run, and below adapters that of the weights which mixed precision finds
    as they were loaded.
    """
    if adapters and mixed != "no":
        return precision_of(mixed, "fp32", engine, widened=False), weights
    widened = widens and engine.sharded and mixed != "no"
    return precision_of(mixed, weights, engine, widened=widened), None


def precision_of(mixed: str, weights: str, engine: TrainerEngine, *, widened: bool) -> Any:
    """A preset of the job, or each type where there is none."""
    if widened:
        return "bf16" if mixed == "bf16" else _each("fp32", mixed, mixed)
    if mixed == "no" or weights == mixed:
        return {"fp32": "fp32", "bf16": "bf16-pure", "fp16": _each("fp16", "fp16", "fp16")}[weights]
    if weights == "fp32" and mixed == "bf16":
        return "bf16" if engine.sharded else "autocast-bf16"
    if weights == "fp32":
        return _each("fp32", mixed, mixed if engine.sharded else "fp32")
    return "bf16-pure" if weights == "bf16" else _each("fp16", "fp16", "fp16")


def _each(params: str, compute: str, gradients: str) -> dict[str, str]:
    main = "fp32" if params == "fp32" else params
    return {"params": params, "compute": compute, "gradients": gradients, "main_params": main}


def mixed_precision(run: TrainerRun) -> tuple[str, Setting | None]:
    """Mixed precision: TrainingArguments' switches, else what the launcher sets."""
    if run.mixed is not None:
        return run.mixed
    for name in ("bf16", "fp16"):
        if run.arguments.is_on(name):
            return name, run.arguments.get(name)
    if run.arguments.is_on("mixes_as_declared"):
        return ("bf16" if checkpoint_dtype(run) in ("bf16", None) else "fp16"), None
    off = run.arguments.get("bf16")
    launched = run.accelerate.get("mixed_precision") or run.program.environment.get(
        "ACCELERATE_MIXED_PRECISION"
    )
    if launched is not None and as_bool(launched.value) is not False:
        if str(launched.value).lower() in MIXED:
            return str(launched.value).lower(), launched
        run.draft.complain(launched, f"{launched.value!r} is none of {', '.join(MIXED)}")
    if off is None and is_trl(run) and run.releases.has(MIXES_BF16):
        return "bf16", None
    return "no", launched or off


def _weights(run: TrainerRun) -> Weights:
    """The data type in which weights are loaded; None where it is the checkpoint's, unknown here.

    Source of the defaults: from_pretrained takes fp32 before release 5 and the checkpoint's own
    type since; TRL's scripts say fp32 since 0.27.
    """
    given = run.arguments.get("dtype")
    name = "" if given is None else str(given.value).removeprefix("torch.").lower()
    if name and name != "auto":
        if name not in DTYPES:
            assert given is not None
            run.draft.complain(given, f"{name!r} is no data type of weights")
        return DTYPES.get(name, "fp32"), given
    if not name and _loads_in_its_own_way(run):
        return None, None
    if not name and _loads_fp32(run):
        return "fp32", None
    return checkpoint_dtype(run), given


def checkpoint_dtype(run: TrainerRun) -> str | None:
    """The data type that the model's config declares; None where there is no config."""
    config = config_of(run.draft) or {}
    declared = config.get("dtype") or config.get("torch_dtype")
    return DTYPES.get(str(declared), "fp32") if config else None


def _loads_fp32(run: TrainerRun) -> bool:
    if is_trl(run) and run.releases.has(LOADS_FP32):
        return True
    return not run.releases.has(LOADS_CHECKPOINTS_DTYPE)


def _deepspeed(run: TrainerRun) -> tuple[Any, tuple[Setting, ...]] | None:
    """DeepSpeed's own sections; where they say auto or are left out, the switches of the run. None
    where a section says auto and there is no run to ask.
    """
    off: tuple[Setting, ...] = ()
    switches = {"bf16": _enabled(run, ("bf16", "bfloat16")), "fp16": _enabled(run, ("fp16",))}
    for name, enabled in switches.items():
        mixed, mixing = mixed_precision(run)
        asked = enabled is None or enabled.value == "auto"
        mixes = mixing is not None or run.trainer.kind != "script"
        if enabled is not None and asked and not mixes:
            need(run.draft, PRECISION, f"auto is what --{name} says, which is not given", enabled)
            return None
        by_run = mixed == name or (mixed == "fp8" and name == "bf16")
        given = tuple(each for each in (enabled, mixing if asked else None) if each is not None)
        if by_run if asked else enabled is not None and as_bool(enabled.value):
            half = {"params": "fp16", "compute": "fp16", "gradients": "fp16", "main_params": "fp32"}
            return ("bf16" if name == "bf16" else half), given
        off = (*off, *given)
    return "fp32", tuple(dict.fromkeys(off))


def _enabled(run: TrainerRun, sections: tuple[str, ...]) -> Setting | None:
    source = run.deepspeed
    found = [source.get(f"{each}.enabled") for each in sections] if source is not None else []
    return next((each for each in found if each is not None), None)
