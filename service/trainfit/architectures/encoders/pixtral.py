"""The Pixtral image tower: rotary positions, gated feed-forward, no biases."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    linear,
    mlp,
    patch_pixels,
    plain_encoder,
    size,
)

PIXTRAL = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}


def pixtral(config: Config) -> Tower:
    """Images of any size stand behind one another, and a mask keeps them apart."""
    width = size(config, "hidden_size", 1024)
    layer = (
        2 * width
        + attention(width, qkv_bias=False, out_bias=False)
        + mlp(width, size(config, "intermediate_size", 4096), gated=True, bias=False)
    )
    patch = linear(patch_pixels(config, 16), width, bias=False)
    encoder = plain_encoder(
        config,
        PIXTRAL,
        norm="rmsnorm",
        gated=True,
        activation=config.str("hidden_act", "gelu"),
        patch_values=patch_pixels(config, 16),
        rotary=True,
        masked=True,
        linears=("o_proj", "fc1", "fc2"),
        bias=False,
        qkv_bias=False,
        first_norm=True,
    )
    parameters = patch + width + count(config, "num_hidden_layers", 24) * layer
    return Tower(width, parameters, encoder=encoder)
