"""Phi-3-vision and Phi-3.5-vision: Phi-3's decoder with CLIP-L, whose keys no config repeats.

Source: image_embedding_phi3_v.py beside the checkpoints (Phi3ImageEmbedding).
"""

from trainfit.architectures.composite import composite
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import mlp, projected, two_linears
from trainfit.architectures.encoders.towers import tower
from trainfit.architectures.multimodal.llava import CLIP_336
from trainfit.architectures.registry import parser_of
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Projection

SIDE_BY_SIDE = 4
"""Patches of a square that are a token together (`hd_transform`)."""


def phi3_v(config: Config) -> ModelSpec:
    """The text's keys stand beside the sections. Features are those of the last layer but one."""
    text = parser_of("phi3")(config)
    layers = config.section("embd_layer", {})
    for key, value in (("projection_cls", "mlp"), ("use_hd_transform", True)):
        if layers.get(key, value) != value:
            raise layers.error(key, f"must be {value}: only this projection is modelled")
    features = tower(Config({**CLIP_336, "model_type": "clip_vision_model"}, "/img_processor"))
    inputs = SIDE_BY_SIDE * features.width
    separators = 2 * inputs if layers.bool("with_learnable_separator", True) else 0
    projector = mlp(inputs, text.hidden_size, text.hidden_size) + separators
    encoder = None
    if features.encoder is not None:
        last = features.encoder.num_layers
        read = {"num_layers": last - 1, "unread_layers": 1, "last_norm": False}
        encoder = projected(
            features.encoder.model_copy(update=read),
            Projection(kind="merge", width=inputs),
            *two_linears(text.hidden_size),
            patches=SIDE_BY_SIDE,
        )
    whole = features.parameters + projector
    return composite(config, text, whole, projector=projector, encoder=encoder)


PARSERS = {"phi3_v": phi3_v}
