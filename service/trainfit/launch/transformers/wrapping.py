"""Which modules FSDP shares out as units of their own, by the names of their classes.

Sources: accelerate's utils/dataclasses.py (set_auto_wrap_policy) and utils/fsdp_utils.py, and
_no_split_modules of the models of transformers 5.23, which are the classes where none is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainfit.launch.keys import words
from trainfit.launch.models import config_of, has_tower
from trainfit.launch.settings import Setting
from trainfit.launch.transformers.run import TrainerRun
from trainfit.launch.transformers.source import as_int

BY_LAYER = "transformer_based_wrap"
LAYER = re.compile(r"(?P<family>\w+?)(Text)?(DecoderLayer|Block|Layer)")
TOWERS = re.compile(r"\w*(Vision|Audio|Siglip\w*Encoder|CLIP\w*Encoder|Encoder)\w*(Block|Layer)")
"""Layers of towers, which are shared out beside those of the language model."""
NAMED_OTHERWISE: Mapping[str, tuple[str, ...]] = {
    "hunyuan_v1_dense": ("HunYuanDenseV1DecoderLayer",),
    "hunyuan_v1_moe": ("HunYuanMoEV1DecoderLayer",),
    "inkling2": ("Inkling2SlidingDecoderLayer", "Inkling2FullDecoderLayer"),
    "jamba": ("JambaAttentionDecoderLayer", "JambaMambaDecoderLayer"),
    "mllama": ("MllamaCrossAttentionDecoderLayer", "MllamaSelfAttentionDecoderLayer"),
    "modernbert-decoder": ("ModernBertDecoderLayer",),
    "olmo_hybrid": ("OlmoHybridAttentionDecoderLayer", "OlmoHybridLinearAttentionDecoderLayer"),
    "zamba": ("ZambaHybridLayer", "ZambaMambaDecoderLayer"),
    "zamba2": ("Zamba2HybridLayer", "Zamba2MambaDecoderLayer"),
}
"""model_types whose layers are not called by the type's own name."""
OTHER_LAYERS = words("""
BloomBlock CodeGenBlock DbrxBlock FalconMambaBlock GLMBlock GPT2Block GPTBigCodeBlock GPTJBlock
GPTNeoBlock GPTNeoXLayer Mamba2Block MambaBlock MptBlock MPTBlock NemotronHBlock QWenBlock
RwkvBlock xLSTMBlock
""")
"""Classes of layers that are not called DecoderLayer."""


def check_wrapping(
    run: TrainerRun, policy: Setting | None, classes: Setting | None, minimum: Setting | None
) -> None:
    """Note units other than whole layers, embedding and head, which are not modelled: those of some
    size, the whole model, or a class that is no layer of the model's.
    """
    named = None if policy is None else str(policy.value).lower()
    if policy is not None and named != BY_LAYER:
        run.draft.leave_out(policy, f"only units of one layer each are modelled, not {named}")
    elif policy is None and minimum is not None and as_int(minimum.value) != 0:
        run.draft.leave_out(minimum, "wrapping by size makes units that are not modelled")
    if classes is None:
        return
    listed = classes.value if isinstance(classes.value, list) else str(classes.value).split(",")
    units = [str(each).strip() for each in listed]
    config = config_of(run.draft)
    layers = [name for name in units if _is_layer(name, config)]
    others = [name for name in units if name not in layers and not _is_tower(name, config)]
    if others or not layers:
        kind = "" if config is None else f" of {config.get('model_type')}"
        what = ", ".join(others or units)
        why = f"only units of one layer each are modelled: no layer{kind} is known as {what}"
        run.draft.leave_out(classes, why)


def _is_layer(name: str, config: Mapping[str, Any] | None) -> bool:
    """Whether a class is that of the model's layers; of a model that is not known, of any's."""
    if config is None:
        return name.endswith("DecoderLayer") or name in OTHER_LAYERS
    text = config.get("text_config")
    kinds = {str(part.get("model_type")) for part in (config, text) if isinstance(part, Mapping)}
    if any(name in NAMED_OTHERWISE.get(kind, ()) for kind in kinds):
        return True
    found = LAYER.fullmatch(name)
    return found is not None and _plain(found["family"]) in {
        _plain(kind).removesuffix("text") for kind in kinds
    }


def _is_tower(name: str, config: Mapping[str, Any] | None) -> bool:
    """Whether a class is that of the layers of a tower beside the language model."""
    return has_tower(config) and TOWERS.fullmatch(name) is not None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
