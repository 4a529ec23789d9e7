"""Cosmos 3 Edge: Llama with a plain feed-forward behind SigLIP's layers."""

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import count, layer_norm, mlp, size
from trainfit.architectures.encoders.siglip import SO400M, siglip_layers
from trainfit.specs.architecture import ModelSpec


def cosmos3_edge(config: Config) -> ModelSpec:
    text = own_text_spec(config, "cosmos3_edge_text")
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 1152)
    merged = width * size(vision, "spatial_merge_size", 2) ** 2
    hidden = size(config, "projector_hidden_size", 11520)
    encoders = (
        siglip_layers(vision, SO400M, 16, count(vision, "num_patches", 256))
        + layer_norm(width)
        + mlp(merged, hidden, text.hidden_size)
    )
    return composite(config, text, encoders, tied=None)


PARSERS = {"cosmos3_edge": cosmos3_edge}
