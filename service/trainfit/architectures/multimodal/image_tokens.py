"""Models whose images become words: Chameleon, Emu 3, Janus. Fuyu projects raw patches."""

from trainfit.architectures.composite import composite, own_text_spec, section, text_spec
from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    layer_norm,
    pre_norm_layer,
    rms,
)
from trainfit.architectures.encoders.layers import (
    Tower,
    attention,
    count,
    linear,
    mlp,
    patch_pixels,
    patches,
    scaled,
    size,
)
from trainfit.architectures.encoders.layers import layer_norm as norm_parameters
from trainfit.architectures.encoders.vqgan import chameleon_vq, emu3_vq, janus_vq
from trainfit.architectures.vocabulary import LLAMA_7B
from trainfit.specs.architecture import ModelSpec

_CHAMELEON = {**LLAMA_7B, "vocab_size": 65536, "num_key_value_heads": 32}
_FUYU = {
    "vocab_size": 262144,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "qk_layernorm": True,
}


def chameleon(config: Config) -> ModelSpec:
    """Text keys stand beside the tokenizer's section. Each query and key head has its own norm."""
    text = Config({**_CHAMELEON, **config.values, "head_dim": None}, config.path)
    bias = text.bool("attention_bias", False)
    heads = grouped_query_attention(text, qkv_bias=bias, out_bias=bias)
    normed = heads.model_copy(
        update={
            "q_norm": layer_norm(heads.head_dim, copies=heads.heads),
            "k_norm": layer_norm(heads.head_dim, copies=heads.kv_heads),
        }
    )
    norm = rms(text.int("hidden_size"))
    layer = pre_norm_layer(norm, normed, gated_mlp(text, bias=text.bool("mlp_bias", False)))
    spec = decoder(text, [layer] * layer_count(text), tied=False, final_norm=norm)
    return composite(config, spec, chameleon_vq(section(config, "vq_config")))


def emu3(config: Config) -> ModelSpec:
    text = own_text_spec(config, "emu3_text_model")
    return composite(config, text, emu3_vq(section(config, "vq_config")))


def janus(config: Config) -> ModelSpec:
    """A tower to see with, and a tokenizer with aligner and head to draw with."""
    text = text_spec(config, "llama")
    vision, vq = section(config, "vision_config"), section(config, "vq_config")
    encoders = _janus_tower(vision).parameters + _janus_generation(vq)
    return composite(config, text, encoders, tied=True)


def fuyu(config: Config) -> ModelSpec:
    """Early configs hold the text's keys beside the patch size."""
    flat = config.get("text_config") is None
    given = {key: config.get(key) for key in _FUYU if key in config} if flat else {}
    named = Config({"text_config": given or None}) if flat else config
    text = text_spec(named, "persimmon", _FUYU)
    patch = size(config, "patch_size", 30)
    pixels = patch * patch * size(config, "num_channels", 3)
    return composite(config, text, linear(pixels, text.hidden_size))


def _janus_tower(vision: Config) -> Tower:
    """SigLIP's layers, biases and norms by key, and an aligner of `depth` linear layers."""
    width = size(vision, "hidden_size", 1024)
    bias = vision.bool("attention_bias", True)
    qk_norms = 2 * norm_parameters(width) if vision.bool("use_qk_norm", False) else 0
    layer = (
        2 * norm_parameters(width)
        + attention(width, qkv_bias=bias)
        + qk_norms
        + mlp(width, scaled(vision, width, "mlp_ratio", 4.0))
    )
    text = size(vision, "projection_dim", 2048)
    aligner = linear(width, text) + (size(vision, "depth", 2) - 1) * linear(text, text)
    return Tower(
        text,
        linear(patch_pixels(vision, 16), width)
        + patches(vision, 384, 16) * width
        + count(vision, "num_hidden_layers", 24) * layer
        + norm_parameters(width)
        + aligner,
    )


def _janus_generation(vq: Config) -> int:
    codes, width = size(vq, "num_embeddings", 16384), size(vq, "embed_dim", 8)
    text = size(vq, "projection_dim", 2048)
    aligner = linear(width, text) + (size(vq, "num_hidden_layers", 2) - 1) * linear(text, text)
    head = linear(size(vq, "image_token_embed_dim", 2048), text) + linear(text, codes)
    return janus_vq(vq) + codes * width + aligner + head


PARSERS = {"chameleon": chameleon, "emu3": emu3, "fuyu": fuyu, "janus": janus}
