"""BLIP-2 and InstructBLIP with a decoder as text model."""

from trainfit.architectures.composite import section, text_spec, whole_text_composite
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.blip import blip_vision
from trainfit.architectures.encoders.layers import linear, size
from trainfit.architectures.encoders.qformer import BLIP_2, q_former
from trainfit.specs.architecture import ModelSpec


def blip_2(config: Config) -> ModelSpec:
    former = section(config, "qformer_config")
    return _querying(config, former, text_input=former.bool("use_qformer_text_input", False))


def instructblip(config: Config) -> ModelSpec:
    """The querying transformer also reads the instruction, by an embedding of its own."""
    former = section(config, "qformer_config")
    words = size(former, "vocab_size", 30522) + size(former, "max_position_embeddings", 512)
    width = size(former, "hidden_size", BLIP_2["hidden_size"])
    return _querying(config, former, text_input=True, embedding=words * width)


def _querying(config: Config, former: Config, *, text_input: bool, embedding: int = 0) -> ModelSpec:
    text = text_spec(config, "opt")
    features = blip_vision(section(config, "vision_config"))
    seeing = Config({**former.values, "encoder_hidden_size": features.width}, former.path)
    width = size(former, "hidden_size", BLIP_2["hidden_size"])
    encoders = (
        features.parameters
        + q_former(seeing, text_input=text_input)
        + size(config, "num_query_tokens", 32) * width
        + linear(width, text.hidden_size)
        + embedding
    )
    return whole_text_composite(config, text, encoders)


PARSERS = {
    "blip-2": blip_2,
    "instructblip": instructblip,
    "instructblipvideo": instructblip,
}
