"""Muse Glimmer and Muse Spark: a tower of windows, adapted to the text; Spark also hears."""

from trainfit.architectures.composite import composite, own_text_spec, section
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    rms,
    sandwich_norm_layer,
)
from trainfit.architectures.encoders.layers import (
    convolution,
    count,
    layer_norm,
    linear,
    mlp,
    scaled,
    size,
    sizes,
    transformer_layer,
)
from trainfit.architectures.windows import sliding_window, windows
from trainfit.specs.architecture import ModelSpec

_GLIMMER = {
    "vocab_size": 202048,
    "hidden_size": 6656,
    "intermediate_size": 19968,
    "num_hidden_layers": 52,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "sliding_window": 2048,
}


def muse_glimmer_text(config: Config) -> ModelSpec:
    """Gated attention; every fourth layer, counted from the last, sees all tokens."""
    config = config.with_defaults(_GLIMMER)
    total = layer_count(config)
    bias = config.bool("attention_bias", False)
    norm = rms(config.int("hidden_size"))
    reach = windows(
        config, total, lambda index: (total - 1 - index) % 4 != 0, sliding_window(config)
    )
    kinds = {
        window: sandwich_norm_layer(
            norm,
            grouped_query_attention(
                config, qkv_bias=bias, out_bias=bias, gate="feature", window=window
            ),
            gated_mlp(config),
        )
        for window in set(reach)
    }
    return decoder(config, [kinds[window] for window in reach], tied=False, final_norm=norm)


def muse_glimmer(config: Config) -> ModelSpec:
    text = own_text_spec(config, "muse_glimmer_text")
    return composite(config, text, _image(config, text.hidden_size))


def muse_spark(config: Config) -> ModelSpec:
    text = own_text_spec(config, "muse_spark_text")
    encoders = _image(config, text.hidden_size) + _audio(section(config, "audio_config"))
    return composite(config, text, encoders)


def _image(config: Config, text: int) -> int:
    """The tower, an adapter of two layers and the projection into the text."""
    vision = section(config, "vision_config")
    width = size(vision, "hidden_size", 1536)
    patch = size(vision, "patch_size", 14)
    pixels = 3 * patch * patch * size(vision, "patch_temporal", 2)
    grid = size(vision, "pos_emb_height", 32) * size(vision, "pos_emb_width", 32)
    layer = transformer_layer(width, size(vision, "intermediate_size", 8960))
    merged = size(config, "out_hidden_size", 6144)
    hidden = size(config, "projector_hidden_size", 4096)
    return (
        linear(pixels, width, bias=False)
        + grid * width
        + count(vision, "num_hidden_layers", 50) * layer
        + 2 * layer_norm(width)
        + mlp(merged, hidden, hidden, bias=False)
        + linear(hidden, text, bias=False)
    )


def _audio(audio: Config) -> int:
    """Stages of convolution blocks, each over patches of the stage before."""
    patch_sizes = sizes(audio, "patch_sizes", (16, 6, 5, 4))
    widths = sizes(audio, "hidden_sizes", (256, 512, 1024, 2048))
    depths = sizes(audio, "depths", (2, 2, 2, 2))
    if not len(patch_sizes) == len(widths) == len(depths):
        raise audio.error("hidden_sizes", "must be as long as patch_sizes and depths")
    kernel = size(audio, "conv_kernel_size", 7)
    total, inputs = 0, 1
    for patch, width, depth in zip(patch_sizes, widths, depths, strict=True):
        feed_forward = mlp(width, scaled(audio, width, "mlp_ratio", 4.0))
        block = convolution(1, width, kernel) + width + feed_forward
        total += linear(inputs * patch, width) + width + depth * block
        inputs = width
    output = size(audio, "out_hidden_size", 8192)
    return total + inputs + linear(inputs, output) + output


PARSERS = {
    "muse_glimmer": muse_glimmer,
    "muse_glimmer_text": muse_glimmer_text,
    "muse_spark": muse_spark,
}
