"""Adapters beside frozen weights, and how these are quantised.

Sources: TRL's model_config.py and trainer/utils.py, peft's LoraConfig and utils/constants.py.
"""

from __future__ import annotations

import re

from trainfit.launch.dora import put_dora
from trainfit.launch.effects import HELD_MORE, SHARING, Effect
from trainfit.launch.models import config_of, experts_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.changes import NARROW_ADAPTERS, STACKS_EXPERTS
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.launch.transformers.run import TrainerRun, need
from trainfit.launch.transformers.targets import put_linears

PEFT = "/training/peft"
QUANTISED_EXPERTS = f"{PEFT}/quantize_experts"
QUERIES_AND_VALUES = ("q_proj", "v_proj")
PEFTS_OWN = {
    **dict.fromkeys(
        ("llama", "llama4", "mistral", "mixtral", "stablelm", "gemma", "gemma2", "gemma3_text"),
        QUERIES_AND_VALUES,
    ),
    **dict.fromkeys(("qwen2", "qwen3", "opt", "gptj", "gpt_neo"), QUERIES_AND_VALUES),
    **dict.fromkeys(("bloom", "gpt_neox", "falcon", "chatglm"), ("query_key_value",)),
    "gpt2": ("c_attn",),
    "gpt_bigcode": ("c_attn",),
    "mpt": ("Wqkv",),
    "phi": ("q_proj", "v_proj", "fc1", "fc2"),
    "nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
"""Modules that PEFT 0.20 adapts where none is named, by model_type (utils/constants.py)."""
TRL_RANK = 16
TRL_DROPOUT = 0.05


SWITCH = "use_peft"
"""TRL's own."""
SYNONYMS = ("use_lora", "lora_enable")
"""Switches of other scripts that say the same: Qwen's and FastChat's, LLaVA's."""
OF_ADAPTERS = (
    "lora_r",
    "lora_alpha",
    "lora_dropout",
    "lora_target_modules",
    "lora_modules_to_save",
    "lora_task_type",
    "use_dora",
)
TRLS = re.compile(
    r"trl|(.*[./])?(run_)?(sft|dpo|grpo|kto|orpo|cpo|bco|rloo|reward|reward_modeling|gkd|ppo|xpo|"
    r"nash_md|dpo_online|sft_vlm|dpo_vlm|sft_video_llm|sft_gpt_oss|cpt)(\.py)?"
)
"""TRL's command, its scripts, and those of alignment-handbook and open-r1 over its configs."""
NOT_KNOWN = (
    "whether this script trains adapters is not known: only TRL's scripts have no adapters without "
    "use_peft; give use_peft, or /training/peft in overrides"
)
ASSUMED = "an assumption, which costs memory, where the script does not say"


def _switch(run: TrainerRun) -> tuple[str, Setting] | None:
    """What says whether there are adapters, by its name and where it stands: TRL's switch, or one
    of a script that is not TRL's.
    """
    for name in (SWITCH,) if _is_trls(run) else (SWITCH, *SYNONYMS):
        if (switch := run.arguments.get(name)) is not None:
            return name, switch
    return None


def _is_trls(run: TrainerRun) -> bool:
    return TRLS.fullmatch(run.program.name or "") is not None


def has_adapters(run: TrainerRun) -> bool:
    """Whether the run trains adapters in place of weights."""
    switch = _switch(run)
    return switch is not None and run.arguments.is_on(switch[0])


def put_adapters(run: TrainerRun, engine: TrainerEngine) -> None:
    """Set the adapters, if there are any. Without them, their keys change nothing in TRL's scripts;
    what another script makes of them is not known.
    """
    arguments, draft = run.arguments, run.draft
    found = _switch(run)
    if found is None or not has_adapters(run):
        given = [each for key in OF_ADAPTERS if (each := arguments.get(key)) is not None]
        known = found is not None or _is_trls(run)
        overridden = draft.overridden("/training/peft") is not None
        for setting in given if not (known or overridden) else ():
            draft.leave_out(setting, NOT_KNOWN)
        _refuse_quantised(run)
        return
    name, switch = found
    trls = name == SWITCH
    draft.put(f"{PEFT}/method", "lora", switch)
    if not arguments.copy("lora_r", f"{PEFT}/r") and trls:
        draft.default(f"{PEFT}/r", TRL_RANK, "TRL")
    need(draft, f"{PEFT}/r", "the rank that this script gives adapters is not known", switch)
    if not arguments.copy("lora_dropout", f"{PEFT}/dropout"):
        draft.default(f"{PEFT}/dropout", TRL_DROPOUT, "TRL" if trls else ASSUMED)
    _put_targets(run, switch, trls=trls)
    saved = arguments.get("lora_modules_to_save")
    if saved is not None:
        draft.put(f"{PEFT}/modules_to_save", arguments.words("lora_modules_to_save"), saved)
    put_decomposed(run, "use_dora")
    quantised = _put_quantised(run, engine)
    deepspeed = engine.name == "deepspeed" and draft.get("/training/precision") == "bf16"
    if quantised and run.trainer.kind == "sft" and run.releases.has(NARROW_ADAPTERS):
        draft.default(f"{PEFT}/adapter_dtype", "bf16", "TRL, over quantised weights")
    elif deepspeed:
        draft.default(f"{PEFT}/adapter_dtype", "bf16", "DeepSpeed, which casts what it is given")


def put_decomposed(run: TrainerRun, key: str) -> None:
    """Set whether adapters learn the lengths of a matrix's rows. Beside experts, and where they are
    one function with their products, what that takes is bounded.
    """
    draft, setting = run.draft, run.arguments.get(key)
    if setting is None or not run.arguments.is_on(key):
        return
    divided = draft.settled("/parallelism/tp") not in (None, 1)
    if experts_of(draft) or draft.get(f"{PEFT}/fused") or divided:
        put_dora(draft, setting)
    else:
        draft.put(f"{PEFT}/decomposed", True, setting)


def _put_targets(run: TrainerRun, switch: Setting, *, trls: bool) -> None:
    """Where none is named, PEFT has its own choice for models that it knows, and a script that is
    not TRL's may have another.
    """
    setting = run.arguments.get("lora_target_modules")
    pointer = f"{PEFT}/target_modules"
    known = PEFTS_OWN.get(str((config_of(run.draft) or {}).get("model_type")))
    if setting is None and known is not None and trls:
        run.draft.default(pointer, list(known), "PEFT")
        return
    if setting is None:
        message = "PEFT's own choice of modules for this model is not known: name them"
        if not trls:
            message = "which modules this script adapts is not known: name them"
        need(run.draft, pointer, message, switch)
        return
    names = run.arguments.words("lora_target_modules")
    all_linear = [each for each in names if each in ("all-linear", "all", "all_linear")]
    if all_linear:
        run.draft.put(pointer, "all-linear", setting)
    else:
        put_linears(run.draft, pointer, names, setting)


def _put_quantised(run: TrainerRun, engine: TrainerEngine) -> bool:
    """Set how frozen weights are stored. FSDP shares out what is stored as floating point only."""
    arguments, draft = run.arguments, run.draft
    four = arguments.get("load_in_4bit")
    eight = arguments.get("load_in_8bit")
    storage = arguments.get("bnb_4bit_quant_storage")
    arguments.get("bnb_4bit_quant_type")
    arguments.get("bnb_4bit_compute_dtype")
    if four is not None and arguments.is_on("load_in_4bit"):
        put_stored(run, "nf4", four, arguments.get("use_bnb_nested_quant"))
        if engine.sharded and engine.name != "deepspeed" and storage is None:
            draft.leave_out(four, "FSDP shares nothing out that is stored in bytes: not modelled")
        return True
    arguments.get("use_bnb_nested_quant")
    if eight is not None and arguments.is_on("load_in_8bit"):
        put_stored(run, "int8", eight, None)
        return True
    return False


EIGHT_BITS = Effect(
    "whether matrices of 8 bits are shared out as other weights are is not known: each GPU keeps "
    "its share of them at least, all of them at most",
    "raises",
    "bitsandbytes' nn/modules.py: Int8Params, of whole numbers, beside weights in floating point",
    within={SHARING: HELD_MORE["optim_grads_params"]},
)


def put_stored(run: TrainerRun, kind: str, setting: Setting, nested: Setting | None) -> None:
    """Set how frozen weights are stored, whether the scales of 4 bits are quantised too, and
    whether experts are.
    """
    run.draft.put(f"{PEFT}/quantization", kind, setting)
    if kind == "int8" and run.draft.get(SHARING) == "optim_grads_params":
        run.draft.leave_out(setting, EIGHT_BITS)
    if experts_of(run.draft) and not run.releases.has(STACKS_EXPERTS):
        run.draft.default(QUANTISED_EXPERTS, True, "transformers before 5.0")
    if nested is not None and kind == "nf4":
        run.draft.put(f"{PEFT}/double_quantization", nested.value, nested)


def _refuse_quantised(run: TrainerRun) -> None:
    """Weights that are quantised cannot be trained themselves."""
    for key in ("load_in_4bit", "load_in_8bit"):
        setting: Setting | None = run.arguments.get(key)
        if setting is not None and run.arguments.is_on(key):
            run.draft.leave_out(setting, "quantised weights are frozen, and there are no adapters")
    for key in ("use_bnb_nested_quant", "bnb_4bit_quant_type", "bnb_4bit_quant_storage"):
        run.arguments.get(key)
    run.arguments.get("bnb_4bit_compute_dtype")
