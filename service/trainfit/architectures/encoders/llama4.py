"""The image tower of Llama 4: rotary and learned positions, pixels shuffled into an adapter."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    count,
    layer_norm,
    linear,
    patch_pixels,
    patches,
    plain_encoder,
    size,
    transformer_layer,
)

LLAMA4 = {"hidden_size": 768, "intermediate_size": 5632, "num_hidden_layers": 34}


def llama4_vision(config: Config) -> Tower:
    width = size(config, "hidden_size", 768)
    ffn = size(config, "intermediate_size", 5632)
    adapted = size(config, "projector_output_dim", 4096)
    adapter = linear(ffn, size(config, "projector_input_dim", 4096), bias=False) + linear(
        adapted, adapted, bias=False
    )
    encoder = plain_encoder(
        config,
        LLAMA4,
        activation="gelu",
        image_patches=patches(config, 448, 14),
        class_tokens=1,
        narrow_pixels=True,
        unfolds=True,
        rotary=True,
        linears=("o_proj", "fc1", "fc2"),
        first_norm=True,
        last_norm=True,
    )
    return Tower(
        size(config, "vision_output_dim", 7680),
        linear(patch_pixels(config, 14), width, bias=False)
        + width
        + (patches(config, 448, 14) + 1) * width
        + 2 * layer_norm(width)
        + count(config, "num_hidden_layers", 34) * transformer_layer(width, ffn)
        + adapter,
        encoder=encoder,
    )
