"""Idefics 2 and 3, SmolVLM and Aria."""

from trainfit.architectures.composite import (
    auto_section,
    composite,
    own_text_spec,
    section,
    text_spec,
)
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    layer_norm,
    linear,
    linear_step,
    mlp,
    projected,
    size,
)
from trainfit.architectures.encoders.siglip import idefics2_vision, idefics3_vision
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.encoder import Projection


def idefics2(config: Config) -> ModelSpec:
    """The projection is as wide inside as the text's own feed-forward."""
    features = idefics2_vision(section(config, "vision_config"))
    text_section = auto_section(config, "text_config", "mistral")
    text = text_spec(config, "mistral")
    ffn = size(text_section, "intermediate_size", 14336)
    projection = mlp(features.width, ffn, text.hidden_size, gated=True, bias=False)
    resampler = _perceiver(section(config, "perceiver_config"), text.hidden_size)
    return composite(config, text, features.parameters + projection + resampler)


def idefics3(config: Config) -> ModelSpec:
    """Idefics 3 and SmolVLM: `scale_factor` squared patches become one, by one matrix. Tiles are
    as large as each other, so that no mask is read. Source: modeling_smolvlm.py
    (SmolVLMVisionTransformer, SmolVLMConnector).
    """
    features = idefics3_vision(section(config, "vision_config"))
    text = text_spec(config, "llama")
    together = size(config, "scale_factor", 2) ** 2
    inputs = features.width * together
    projection = linear(inputs, text.hidden_size, bias=False)
    encoder = projected(
        features.encoder,
        Projection(kind="merge", width=inputs),
        linear_step(text.hidden_size, "proj", bias=False),
        patches=together,
    )
    encoders = features.parameters + projection
    return composite(config, text, encoders, projector=projection, encoder=encoder)


def aria(config: Config) -> ModelSpec:
    features = tower(auto_section(config, "vision_config", "idefics3_vision"))
    text = own_text_spec(config, "aria_text")
    projector = _cross_attention_projector(config, features, text.hidden_size)
    return composite(config, text, features.parameters + projector)


def _perceiver(config: Config, width: int) -> int:
    """Latents that attend to the image; the resampler works at the text's width."""
    head = size(config, "resampler_head_dim", 96)
    layer = (
        3 * width
        + attention(
            width,
            query=size(config, "resampler_n_heads", 16) * head,
            key_value=size(config, "num_key_value_heads", 4) * head,
            qkv_bias=False,
            out_bias=False,
        )
        + mlp(width, 4 * width, gated=True, bias=False)
    )
    latents = size(config, "resampler_n_latents", 64) * width
    return latents + count(config, "resampler_depth", 3) * layer + width


def _cross_attention_projector(config: Config, features: Tower, text: int) -> int:
    """Learned queries, as many as the largest image needs, attend to the patches."""
    width = features.width
    queries = Config({"queries": _most_queries(config)}, config.path)
    cross_attention = (
        3 * linear(width, width, bias=False)
        + attention(width)
        + linear(width, width)
        + 2 * layer_norm(width)
    )
    return (
        size(queries, "queries") * width
        + cross_attention
        + layer_norm(width)
        + mlp(width, text, text, bias=False)
    )


def _most_queries(config: Config) -> object:
    key = "projector_patch_to_query_dict"
    if config.get(key) is None:
        return 256
    numbers = config.section(key).values.values()
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise config.error(key, "must map numbers of patches to numbers of queries")
    return max(numbers)


PARSERS = {"aria": aria, "idefics2": idefics2, "idefics3": idefics3, "smolvlm": idefics3}
