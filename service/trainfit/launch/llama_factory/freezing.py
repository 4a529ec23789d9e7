"""What LLaMA-Factory does not train of a model beside adapters.

Source: LLaMA-Factory's model/adapter.py, model/model_utils/visual.py and checkpointing.py.
"""

from __future__ import annotations

from typing import Any

from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.engine import TrainerEngine
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int
from trainfit.launch.transformers.towers import FROZEN, UNLIKE, put_towers

OUTSIDE_LAYERS = {"embed_tokens": "embed_tokens", "lm_head": "lm_head", "norm": "final_norm"}
"""Modules that freeze_extra_modules may name, and what a job calls them."""
LAYERS_BY_DEFAULT = 2


def put_frozen(run: TrainerRun, engine: TrainerEngine, kind: str) -> None:
    """Set what is frozen in a `kind` of tuning: lora, full or freeze. Under DeepSpeed, or where
    training is purely bf16, it is in the same type as what is trained.
    """
    alike = _is_alike(run, engine)
    towers = put_towers(run, kind, alike=alike, whose="LLaMA-Factory", projects=False)
    if kind != "freeze":
        return
    asked = run.arguments.get("finetuning_type")
    assert asked is not None
    if not _is_alike(run, engine):
        run.draft.leave_out(asked, UNLIKE)
    else:
        _put_layers(run, asked, towers)


def _is_alike(run: TrainerRun, engine: TrainerEngine) -> bool:
    return engine.name == "deepspeed" or run.arguments.is_on("pure_bf16")


def _put_layers(run: TrainerRun, asked: Setting, towers: tuple[str, ...]) -> None:
    """Set which layers are frozen: all but the last ones, or the first ones of a negative number.
    What stands outside the layers is frozen unless it is named. Frozen layers are not recomputed.
    """
    arguments, draft = run.arguments, run.draft
    modules, number = (arguments.get(f"freeze_trainable_{each}") for each in ("modules", "layers"))
    if modules is not None and arguments.words("freeze_trainable_modules") != ["all"]:
        draft.leave_out(modules, "layers that are trained in part are not modelled")
    extra = arguments.get("freeze_extra_modules")
    named = arguments.words("freeze_extra_modules")
    if extra is not None and (others := sorted(set(named) - OUTSIDE_LAYERS.keys())):
        draft.leave_out(extra, f"modules outside the layers: {', '.join(others)}: not modelled")
    total = _number_of_layers(config_of(draft) or {})
    trained = LAYERS_BY_DEFAULT if number is None else as_int(number.value)
    if total is None or trained is None:
        draft.leave_out(asked, "how many layers are frozen is not known: give num_frozen_layers")
        return
    outside = [each for name, each in OUTSIDE_LAYERS.items() if name not in named]
    draft.put(FROZEN, [*outside, *towers], *filter(None, (asked, extra)))
    where = "num_frozen_layers" if trained >= 0 else "num_frozen_last_layers"
    frozen = max(0, total - abs(trained))
    draft.put(f"/training/{where}", frozen, *filter(None, (asked, number)))
    draft.default("/training/recompute/frozen_layers", False, "LLaMA-Factory")


def _number_of_layers(config: dict[str, Any]) -> int | None:
    text = config.get("text_config") or config
    for key in ("num_hidden_layers", "num_layers", "n_layer"):
        if text.get(key):
            return as_int(text[key])
    return None
