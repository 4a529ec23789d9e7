"""The querying transformer of BLIP-2: learned queries that attend to a tower's features."""

from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    attention,
    count,
    layer_norm,
    linear,
    mlp,
    size,
)

BLIP_2 = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "intermediate_size": 3072,
    "encoder_hidden_size": 1408,
    "cross_attention_frequency": 2,
}


def q_former(config: Config, *, text_input: bool = False) -> int:
    """All layers and the first norm; with `text_input` each layer has a second feed-forward."""
    sizes = config.with_defaults(BLIP_2)
    width = size(sizes, "hidden_size")
    depth = count(sizes, "num_hidden_layers")
    features = size(sizes, "encoder_hidden_size")
    crossing = -(-depth // size(sizes, "cross_attention_frequency"))
    cross_attention = 2 * linear(width, width) + 2 * linear(features, width) + layer_norm(width)
    feed_forward = mlp(width, size(sizes, "intermediate_size")) + layer_norm(width)
    layer = attention(width) + layer_norm(width) + (2 if text_input else 1) * feed_forward
    return depth * layer + crossing * cross_attention + layer_norm(width)
