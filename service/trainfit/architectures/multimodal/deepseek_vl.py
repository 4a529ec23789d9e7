"""DeepSeek-VL."""

from trainfit.architectures.composite import auto_section, composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import convolution, linear, mlp, size
from trainfit.architectures.encoders.sam import neck, sam
from trainfit.architectures.encoders.towers import tower
from trainfit.specs.architecture import ModelSpec


def deepseek_vl(config: Config) -> ModelSpec:
    text = text_spec(config, "llama")
    features = tower(auto_section(config, "vision_config", "siglip_vision_model"))
    aligner = mlp(features.width, text.hidden_size, text.hidden_size)
    return composite(config, text, features.parameters + aligner, tied=True)


def deepseek_vl_hybrid(config: Config) -> ModelSpec:
    """A second tower reads the image at high resolution; its features meet a second neck."""
    text = text_spec(config, "llama")
    low = tower(auto_section(config, "vision_config", "siglip_vision_model"))
    detailed = section(config, "high_res_vision_config")
    high = sam(detailed)
    channels = high.width
    high_neck = neck(size(detailed, "hidden_size", 768), channels)
    upsampling = convolution(channels, 2 * channels, 3, 3, bias=False) + convolution(
        2 * channels, 4 * channels, 3, 3, bias=False
    )
    half, whole = text.hidden_size // 2, text.hidden_size
    aligner = linear(low.width, half) + linear(4 * channels, half) + linear(whole, whole)
    alpha = 1
    encoders = low.parameters + high.parameters + high_neck + upsampling + aligner + alpha
    return composite(config, text, encoders, tied=True)


PARSERS = {"deepseek_vl": deepseek_vl, "deepseek_vl_hybrid": deepseek_vl_hybrid}
