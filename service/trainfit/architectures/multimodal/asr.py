"""Speech recognisers: MOSS-Transcribe-Diarize, Fun-ASR-Nano, VibeVoice-ASR."""

from trainfit.architectures.composite import composite, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.encoders.layers import (
    convolution,
    count,
    layer_norm,
    mlp,
    size,
    sizes,
    transformer_layer,
)
from trainfit.architectures.encoders.whisper import whisper_medium
from trainfit.specs.architecture import ModelSpec

QWEN3_0_6B = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
}


def moss_transcribe_diarize(config: Config) -> ModelSpec:
    """`audio_merge_size` frames become one, by two linear layers and a norm."""
    text = text_spec(config, "qwen3", QWEN3_0_6B)
    features = whisper_medium(section(config, "audio_config"))
    inputs = features.width * size(config, "audio_merge_size", 4)
    width = text.hidden_size
    projector = mlp(inputs, width, width, bias=config.bool("projector_bias", True))
    encoders = features.parameters + projector + layer_norm(width)
    return composite(config, text, encoders, tied=True, frozen=features.frozen)


def fun_asr_nano(config: Config) -> ModelSpec:
    text = text_spec(config, "qwen3", {**QWEN3_0_6B, "tie_word_embeddings": True})
    audio = section(config, "audio_config")
    encoders = _memory_encoder(audio) + _adaptor(config, size(audio, "hidden_size", 512))
    return composite(config, text, encoders, tied=True)


def vibevoice_asr(config: Config) -> ModelSpec:
    """An encoder for sound and one for meaning, each with a projector."""
    text = text_spec(config, "qwen2")
    width = text.hidden_size
    encoders = 0
    for key, features in (("acoustic", 64), ("semantic", 128)):
        audio = section(config, f"{key}_tokenizer_encoder_config", {"hidden_size": features})
        projector = mlp(size(audio, "hidden_size", 64), width, width) + width
        encoders += _tokenizer(audio) + projector
    return composite(config, text, encoders, tied=None)


def _memory_encoder(audio: Config) -> int:
    """Attention with a memory over neighbouring frames; only the first layer reads the features.

    The last layer of the transcription and that of the timestamps have a norm more.
    """
    width, ffn = size(audio, "hidden_size", 512), size(audio, "intermediate_size", 2048)
    depth = size(audio, "num_hidden_layers", 70)
    features = size(audio, "num_mel_bins", 80) * size(audio, "num_stacked_frames", 7)
    timestamps = count(audio, "num_timestamp_prediction_layers", 20)
    memory = width * size(audio, "fsmn_kernel_size", 11)
    layer = transformer_layer(width, ffn) + memory
    wider = 3 * (features - width) * width + layer_norm(features) - layer_norm(width)
    last = 2 if 0 < timestamps < depth else 1
    return depth * layer + wider + last * layer_norm(width)


def _adaptor(config: Config, features: int) -> int:
    adaptor = section(config, "adaptor_config")
    width = size(adaptor, "hidden_size", 1024)
    layer = transformer_layer(width, size(adaptor, "intermediate_size", 256))
    hidden = size(adaptor, "projector_hidden_size", 2048)
    return mlp(features, hidden, width) + count(adaptor, "num_hidden_layers", 2) * layer


def _tokenizer(audio: Config) -> int:
    """Stages of ConvNeXt blocks; a strided convolution doubles the channels between two."""
    ratios = sizes(audio, "downsampling_ratios", (2, 2, 4, 5, 5, 8))
    depths = sizes(audio, "depths", (3, 3, 3, 3, 3, 3, 8))
    if len(depths) != len(ratios) + 1:
        raise audio.error("depths", "must be one more than downsampling_ratios")
    kernel, expansion = size(audio, "kernel_size", 7), size(audio, "ffn_expansion", 4)
    width = size(audio, "num_filters", 32)
    total = convolution(size(audio, "channels", 1), width, kernel)
    total += depths[0] * _block(width, kernel, expansion)
    for ratio, depth in zip(ratios, depths[1:], strict=True):
        total += convolution(width, 2 * width, 2 * ratio)
        width *= 2
        total += depth * _block(width, kernel, expansion)
    return total + convolution(width, size(audio, "hidden_size", 64), kernel)


def _block(width: int, kernel: int, expansion: int) -> int:
    """A depthwise convolution and a feed-forward, each with a norm and a scale."""
    return convolution(1, width, kernel) + mlp(width, expansion * width) + 4 * width


PARSERS = {
    "fun_asr_nano": fun_asr_nano,
    "moss_transcribe_diarize": moss_transcribe_diarize,
    "vibevoice_asr": vibevoice_asr,
}
