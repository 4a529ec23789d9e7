"""What a tool leaves frozen of a model that sees: its tower, the projector, the text's model."""

from __future__ import annotations

from trainfit.launch.models import config_of, has_tower
from trainfit.launch.transformers.run import TrainerRun

FROZEN = "/training/frozen"
TOWERS = ("vision_tower", "multi_modal_projector")
USUAL = {
    "freeze_vision_tower": True,
    "freeze_multi_modal_projector": True,
    "freeze_language_model": False,
}
"""The switches, and what they are where nothing says otherwise."""
TOLD_APART = (
    "gemma3",
    "idefics3",
    "internvl",
    "internvl_chat",
    "llama4",
    "llava",
    "llava_next",
    "mistral3",
    "paligemma",
    "qwen2_5_vl",
    "qwen2_audio",
    "qwen2_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
    "smolvlm",
    "voxtral",
)
"""model_types whose projector is known apart from the tower."""
UNLIKE = "frozen weights in the checkpoint's type beside trained ones in fp32 are not modelled"


def has_switches(run: TrainerRun) -> bool:
    """Whether a run says of each part whether it is frozen, or its script does by default."""
    return USUAL.keys() <= run.arguments.settings.keys()


def put_towers(
    run: TrainerRun, kind: str, *, alike: bool, whose: str, projects: bool = True
) -> tuple[str, ...]:
    """Set what a `kind` of tuning, lora, full or freeze, leaves frozen of a model with a tower, and
    tell it: tower and projector unless told otherwise, beside which lora has no adapters. Without a
    tower, what is said of one changes nothing. `alike` says that what is frozen has the type of
    what is trained, `projects` that all-linear means the projector's too, and that linears that are
    named have adapters wherever they are; else neither.
    """
    arguments, draft = run.arguments, run.draft
    given = [each for key in USUAL if (each := arguments.get(key)) is not None]
    config = config_of(draft)
    if config is not None and not has_tower(config):
        return ()
    tower, projector, language = (
        arguments.is_on(key) if arguments.get(key) else usual for key, usual in USUAL.items()
    )
    model = arguments.get("model_name_or_path")
    written = [each for each in given if each.whose is None]
    asked = written or ([model] if model is not None and config is not None else [])
    if kind == "lora" and not (_asks_all_linears(run) if projects else projector):
        usual = (tower, projector, language) == tuple(USUAL.values())
        if usual and config is not None:
            return ()
        config = None
    apart = tower != projector and (config or {}).get("model_type") not in TOLD_APART
    nothing = ((tower and projector) or kind == "lora") and language
    if config is None or apart or nothing:
        for setting in asked:
            draft.leave_out(setting, "what is frozen of this vision model is not modelled")
        return ()
    frozen = dict(zip((*TOWERS, "language_model"), (tower, projector, language), strict=True))
    names = tuple([name for name, is_frozen in frozen.items() if is_frozen])
    if not names or kind == "freeze":
        return names
    if not (alike or kind == "lora"):
        for setting in asked:
            draft.leave_out(setting, UNLIKE)
    elif given:
        draft.put(FROZEN, list(names), *given)
    else:
        draft.default(FROZEN, list(names), whose)
    return names


def _asks_all_linears(run: TrainerRun) -> bool:
    """Whether adapters stand beside all linears that are not frozen, and beside no others: names
    are looked for everywhere. Sources: ms-swift's tuner utilities (get_target_modules).
    """
    given = run.arguments.get("lora_target_modules")
    return given is None or run.arguments.words("lora_target_modules") in (["all"], ["all-linear"])
