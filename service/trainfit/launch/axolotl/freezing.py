"""What axolotl does not train beside adapters. All of it is in the type of the arithmetic.

Source: axolotl's utils/freeze.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from trainfit.launch.models import config_of
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

FROZEN = "/training/frozen"
TOWERS = ("vision_tower", "multi_modal_projector")
WHOLLY_FROZEN = (
    "gemma3",
    "internvl",
    "llama4",
    "llava",
    "llava_next",
    "mistral3",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3_vl",
    "qwen3_vl_moe",
)
"""model_types of which freeze_mm_modules names all that feeds the language model."""
OUTSIDE_LAYERS = {
    "model.embed_tokens.weight": "embed_tokens",
    "lm_head.weight": "lm_head",
    "model.norm.weight": "final_norm",
}
"""Parameters, and what a job calls their modules."""
OUTSIDE = r"\^?(model\.embed_tokens|lm_head|model\.norm)(\.weight)?\$?"
LAYERS = r"\^?model\.layers\.[\d\[\]()|+-]{1,100}\.?"
"""Patterns of unfrozen_parameters that name what a job can: a module, or whole layers."""


class Trained(NamedTuple):
    """What patterns leave trained: modules outside the layers, and layers from one to another."""

    modules: frozenset[str]
    first: int
    end: int


def put_frozen(run: TrainerRun, *, adapters: bool) -> None:
    """Set what is frozen by patterns of what is not, or of what feeds a language model."""
    unfrozen, of_towers = (
        run.arguments.get(key) for key in ("unfrozen_parameters", "freeze_mm_modules")
    )
    if unfrozen is not None and unfrozen.value:
        _put_patterns(run, unfrozen, adapters=adapters)
    if of_towers is None or not run.arguments.is_on("freeze_mm_modules"):
        return
    model_type = (config_of(run.draft) or {}).get("model_type")
    if adapters or model_type not in WHOLLY_FROZEN or (unfrozen is not None and unfrozen.value):
        run.draft.leave_out(of_towers, "what is frozen of this vision model is not modelled")
    else:
        run.draft.put(FROZEN, list(TOWERS), of_towers)


def _put_patterns(run: TrainerRun, setting: Setting, *, adapters: bool) -> None:
    config = config_of(run.draft) or {}
    total = as_int(config.get("num_hidden_layers"))
    patterns = setting.value if isinstance(setting.value, list) else [setting.value]
    trained = None
    if total is not None and not adapters and "vision_config" not in config:
        trained = trained_by([str(each) for each in patterns], total)
    if trained is None or total is None:
        run.draft.leave_out(setting, "only whole layers, one after the other, are modelled")
        return
    frozen = [name for name in OUTSIDE_LAYERS.values() if name not in trained.modules]
    counts: dict[str, Any] = {
        FROZEN: frozen,
        "/training/num_frozen_layers": trained.first,
        "/training/num_frozen_last_layers": total - trained.end,
    }
    for pointer, value in counts.items():
        if value:
            run.draft.put(pointer, value, setting)


def trained_by(patterns: Sequence[str], total: int) -> Trained | None:
    """What patterns leave trained of a model with so many layers; None where a job cannot say it.
    A full stop stands for itself, and a pattern has to match from the beginning.
    """
    modules, layers = set[str](), set[int]()
    for pattern in patterns:
        if re.fullmatch(OUTSIDE, pattern) is None and re.fullmatch(LAYERS, pattern) is None:
            return None
        try:
            matches = re.compile(pattern.replace(".", r"\.")).match
        except re.error:
            return None
        modules |= {module for name, module in OUTSIDE_LAYERS.items() if matches(name)}
        layers |= {number for number in range(total) if matches(f"model.layers.{number}.")}
    if not layers:
        return Trained(frozenset(modules), total, total)
    first, end = min(layers), max(layers) + 1
    return Trained(frozenset(modules), first, end) if len(layers) == end - first else None
