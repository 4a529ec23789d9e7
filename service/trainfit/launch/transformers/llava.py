"""A tower and a projector that a script sets before a language model: LLaVA's own.

The whole is the model that transformers has as `llava`: features of one layer of the tower, without
its class token, through the projector into the sequence of the text. Sources: haotian-liu/LLaVA's
llava/model (llava_arch.py, multimodal_encoder/clip_encoder.py, multimodal_projector/builder.py) and
llava/train/train.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfit.launch.draft import Draft
from trainfit.launch.effects import Effect
from trainfit.launch.models import config_of, hidden_size, put_model
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun

TOWER = "vision_tower"
PROJECTOR = "mm_projector_type"
LAYER = "mm_vision_select_layer"
ADAPTERS = "lora_enable"
CLIP: Mapping[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "projection_dim": 768,
}
TOWERS: Mapping[str, Mapping[str, Any]] = {
    "clip-vit-large-patch14": {**CLIP, "image_size": 224},
    "clip-vit-large-patch14-336": {**CLIP, "image_size": 336},
}
"""By the last part of their names, whoever keeps a copy: the vision_config of OpenAI's config.json.
"""
LINEAR = Effect(
    "a projector of one linear is priced as one of two",
    "lowers",
    "haotian-liu/LLaVA llava/model/multimodal_projector/builder.py",
)
TWO_LINEARS, ONE_LINEAR = "mlp2x_gelu", "linear"
STATES = 4 + 4 + 8 + 2
"""Bytes of each parameter that is trained: its gradient, its weight and both moments in fp32, and
the gradient as a backward gives it."""
FP32 = 4


def put_seeing_model(run: TrainerRun, model: Setting) -> bool:
    """Set the model that a tower and a language model are together, and tell whether it is set."""
    tower = run.arguments.get(TOWER) if run.known else None
    if tower is None:
        return False
    draft, kind, layer = run.draft, run.arguments.get(PROJECTOR), run.arguments.number(LAYER)
    if draft.overridden("/model") is not None:
        if not _sees(config_of(draft)):
            draft.leave_out(tower, "the model in overrides has no tower")
        return False
    alone = Draft()
    put_model(alone, run.program, model)
    text, shape = config_of(alone), TOWERS.get(str(tower.value).rstrip("/").rpartition("/")[2])
    if text is None or _sees(text) or shape is None:
        what = "this tower" if shape is None else "the model that this tower is set before"
        draft.leave_out(tower, f"{what} is not known; give the config.json of both in overrides")
        return False
    composite = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": text,
        "vision_config": dict(shape),
        "vision_feature_layer": layer,
        "projector_hidden_act": "gelu",
        "torch_dtype": text.get("torch_dtype") or text.get("dtype"),
        "tie_word_embeddings": bool(text.get("tie_word_embeddings")),
    }
    draft.put("/model/hf_config", composite, model, tower)
    _check_projector(draft, tower, kind)
    return True


def _sees(config: Mapping[str, Any] | None) -> bool:
    return isinstance((config or {}).get("vision_config"), Mapping)


def _check_projector(draft: Draft, tower: Setting, kind: Setting | None) -> None:
    """Only two linears are priced as they are; a default is told where the tower stands."""
    value = None if kind is None else kind.value
    setting = tower if kind is None or kind.whose is not None else kind
    if value == ONE_LINEAR:
        draft.leave_out(setting, LINEAR)
    elif value != TWO_LINEARS:
        draft.leave_out(setting, f"the projector {value} is not modelled")


def leave_out_projector(run: TrainerRun) -> None:
    """Beside adapters the projector is trained as a whole: its states, and what it keeps of a
    sample that is of images alone, a row as wide as the tower's and four as the text's.
    """
    config, switch = config_of(run.draft) or {}, run.arguments.settings.get(ADAPTERS)
    if not (run.known and TOWER in run.arguments.settings and _sees(config)) or switch is None:
        return
    text, seen = hidden_size(run.draft), config["vision_config"].get("hidden_size")
    length, samples = (
        run.draft.settled(f"/training/{each}") for each in ("seq_length", "micro_batch_size")
    )
    if not (text and all(isinstance(each, int) for each in (seen, length, samples))):
        run.draft.leave_out(switch, "the projector is trained as a whole")
        return
    parameters = (seen + 1) * text + (text + 1) * text
    kept = FP32 * samples * length * (seen + 4 * text)
    run.draft.leave_out(
        switch,
        Effect(
            "the projector is trained as a whole",
            "raises",
            "haotian-liu/LLaVA llava/train/train.py: initialize_vision_modules after "
            "get_peft_model",
            bytes=STATES * parameters + kept,
        ),
    )
