"""RecurrentGemma: gated linear recurrences, and attention to a window in every third layer."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import decoder, kv_heads, layer_count, pre_norm_layer, rms
from trainfit.architectures.weights import depthwise_convolution, linear, weight
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Mlp, Recurrence

_RECURRENT_GEMMA = {
    "num_hidden_layers": 26,
    "vocab_size": 256000,
    "hidden_size": 2560,
    "intermediate_size": 7680,
    "num_attention_heads": 10,
    "num_key_value_heads": None,
    "head_dim": None,
    "lru_width": None,
    "attention_window_size": 2048,
    "conv1d_width": 4,
    "block_types": ("recurrent", "recurrent", "attention"),
    "attention_bias": False,
}


def recurrent_gemma(config: Config) -> ModelSpec:
    """`block_types` repeats over the layers; `intermediate_size` counts both halves of the MLP."""
    config = config.with_defaults(_RECURRENT_GEMMA)
    norm = rms(config.int("hidden_size"))
    types = config.list("block_types")
    if not types or any(each not in ("attention", "recurrent") for each in types):
        raise config.error("block_types", "must hold only attention, recurrent")
    mlp = Mlp(ffn=config.int("intermediate_size") // 2, bias=True)
    kinds = {
        "attention": pre_norm_layer(norm, _attention(config), mlp),
        "recurrent": pre_norm_layer(norm, _recurrence(config), mlp),
    }
    layers = [kinds[types[index % len(types)]] for index in range(layer_count(config))]
    return decoder(config, layers, tied=True, final_norm=norm)


def _attention(config: Config) -> Attention:
    """Its output projection is biased always. Counted with the recurrences, as one mixer."""
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads(config, heads),
        head_dim=config.optional_int("head_dim") or hidden // heads,
        qkv_bias=config.bool("attention_bias"),
        out_bias=True,
        window=config.int("attention_window_size"),
        bucket="linear_attention",
    )


def _recurrence(config: Config) -> Recurrence:
    """RG-LRU: two projections, a convolution, and gates [heads, width, width] for the state."""
    hidden, heads = config.int("hidden_size"), config.int("num_attention_heads")
    optional = config.optional_int("lru_width")
    inner = hidden if optional is None else optional
    width = inner // heads
    return Recurrence(
        flavour="rg_lru",
        weights=(
            *linear("linear_y", inner, hidden, bias=True),
            *linear("linear_x", inner, hidden, bias=True),
            *depthwise_convolution("conv1d", inner, config.int("conv1d_width"), bias=True),
            weight("recurrent_param", inner),
            weight("input_gate", heads, width, width),
            weight("input_gate_bias", heads, width),
            weight("recurrent_gate", heads, width, width),
            weight("recurrent_gate_bias", heads, width),
            *linear("linear_out", hidden, inner, bias=True),
        ),
        projected_width=2 * inner + 2 * heads * width,
        convolved_width=inner,
        inner_width=inner,
    )


PARSERS = {"recurrent_gemma": recurrent_gemma}
