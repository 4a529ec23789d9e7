"""VideoLLaMA 3: SigLIP's layers with rotary positions."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import mlp, size
from trainfit.architectures.encoders.siglip import SIGLIP, siglip_layers
from trainfit.specs.architecture import ModelSpec


def video_llama_3(config: Config) -> ModelSpec:
    text = text_spec(config, "qwen2")
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 768)
    projector = mlp(width, text.hidden_size, text.hidden_size)
    encoders = siglip_layers(vision, SIGLIP, 16, positions=0) + projector
    return composite(config, text, encoders, promoted=True)


PARSERS = {"video_llama_3": video_llama_3}
