"""HRM-Text: two stacks of layers, a fast and a slow one, run in nested cycles."""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    grouped_query_attention,
    layer_count,
    pre_norm_layer,
)
from trainfit.specs.architecture import MAX_LAYERS, ModelSpec
from trainfit.specs.blocks import Attention, Layer, Mlp, NamedWeight, Norm, Opaque

_HRM_TEXT = {
    "vocab_size": 151808,
    "hidden_size": 1536,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "head_dim": 128,
    "H_cycles": 2,
    "L_cycles": 3,
}


def _unrolled(config: Config, norm: Norm, attention: Attention, mlp: Mlp) -> list[Layer]:
    """The layers in the order they run; from a stack's second run on they own no weights.

    In each slow cycle the fast stack runs `L_cycles` times, then the slow one once.
    """
    split = config.get("num_layers_per_stack") is not None
    depth = layer_count(config, "num_layers_per_stack" if split else "num_hidden_layers")
    slow, fast = config.int("H_cycles"), config.int("L_cycles")
    if slow < 1 or fast < 1 or slow * (fast + 1) * depth > MAX_LAYERS:
        raise config.error("H_cycles", f"must unroll to between 1 and {MAX_LAYERS} layers")
    own = pre_norm_layer(norm, attention, mlp)
    again = pre_norm_layer(
        norm,
        attention.model_copy(update={"reuses_weights": True}),
        mlp.model_copy(update={"reuses_weights": True}),
    )
    layers = []
    for cycle in range(slow):
        for run in range(fast + 1):
            first = cycle == 0 and run in (0, fast)
            layers += [own if first else again] * depth
    return layers


def hrm_text(config: Config) -> ModelSpec:
    """Norms own no weights; the fast stack's first state is a vector that is not trained."""
    config = config.with_defaults(_HRM_TEXT)
    hidden = config.int("hidden_size")
    bias = config.bool("attention_bias", False)
    norm = Norm(width=hidden, weight=False)
    attention = grouped_query_attention(
        config, qkv_bias=bias, out_bias=bias, gate="feature", gate_bias=bias
    )
    layers = _unrolled(
        config,
        norm,
        attention.model_copy(update={"kv_heads": attention.heads}),
        gated_mlp(config, bias=config.bool("mlp_bias", False)),
    )
    state = NamedWeight(name="z_L_init", shape=(hidden,), trainable=False)
    extras = (Opaque(name="initial_state", bucket="other", weights=(state,)),)
    return decoder(config, layers, tied=False, final_norm=norm, extras=extras)


PARSERS = {"hrm_text": hrm_text}
