"""The words in which most decoders are described: values, which `decoder_values` makes models of.

Defaults are Llama's: rotary grouped-query attention and a gated MLP, an RMSNorm before each, biases
by `attention_bias` and `mlp_bias`, a head of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class ConfigSwitch(NamedTuple):
    """A switch of a config.json, and what the class takes where it is absent."""

    name: str
    default: bool = False


Switch = bool | ConfigSwitch
"""Decided by a key, or by the class whatever the config says."""

ATTENTION_BIAS = ConfigSwitch("attention_bias")
MLP_BIAS = ConfigSwitch("mlp_bias")


def dims(
    *,
    vocab: int,
    hidden: int,
    ffn: int | None = None,
    layers: int,
    heads: int,
    groups: int | None = None,
    head_dim: int | None = None,
    **keys: object,
) -> Mapping[str, object]:
    """A configuration class's values of absent keys; `keys` by their own names.

    Without `groups` there is a key/value head for each head, without `head_dim` heads share out the
    hidden size.
    """
    named = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": head_dim,
    }
    return {key: value for key, value in named.items() if value is not None} | keys


LLAMA_7B = dims(vocab=32000, hidden=4096, ffn=11008, layers=32, heads=32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Which layers attend to `sliding_window` tokens: those that `layer_types` names, and without
    it those that the class's own rule does, which the fields below make up.
    """

    slides: Literal["all", "none", "not_every", "late"] = "not_every"
    """All layers, none, all but every `period`th, or those from `max_window_layers` on."""
    period: int = 4
    period_key: str | None = None
    """The key that says another period; an absent one is `period`."""
    nullable: bool = False
    """Whether a null or 0 under `period_key` means `period` too."""
    spelt: bool = False
    """Whether the period may be spelt out, as in LLLG."""
    first: int | None = None
    """The first layer that sees the whole sequence, where it is not the last of the period."""
    switch: ConfigSwitch | None = None
    """The key without which no layer has a window."""
    listed: bool = True
    """False where `layer_types` is not read: all layers are alike."""


ALIKE = Windows(slides="all", listed=False)
"""The same window in every layer, whatever `layer_types` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """Experts in place of the MLP; the fields are the names of the keys that count them."""

    count: str = "num_experts"
    width: str = "moe_intermediate_size"
    top_k: str = "num_experts_per_tok"
    shared_count: str | None = None
    """Shared experts, each `width` wide."""
    shared_width: str | None = None
    """The width of all shared experts together."""
    nullable: bool = False
    """Whether a null under `shared_count` means none."""
    dense: int | str = 0
    """How many layers come first that have an MLP, or the key that says so."""
    listed: bool = False
    """Whether `mlp_layer_types` may name the layers that have one."""
    bias: bool = False
    router_bias: bool = False
    shared_bias: Switch = False
    correction_bias: bool = False
    """A bias of the router's scores that balances the experts, as parameter or buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A decoder in the shared vocabulary. Each field says which key or class decides it."""

    dims: Mapping[str, object]
    """What the configuration class takes for absent keys."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names that the class accepts, and the key that each stands for."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """What the modelling class has whatever the config says."""
    tied: bool | None = False
    """`tie_word_embeddings` where it is absent; None where the class never ties."""
    norm: Literal["rms", "rms_bare", "layer", "layer_unbiased", "layer_bare"] = "rms"
    """The norms of layers and before the head; bare ones own no weights."""
    norms: Literal["before", "after", "around", "shared"] = "before"
    """Where a layer has them; shared is one norm that attention and MLP read side by side."""
    attention: Literal["grouped", "latent", "indexed"] = "grouped"
    """Grouped-query, or DeepSeek's latent attention, without or with an indexer."""
    qkv_bias: Switch = ATTENTION_BIAS
    out_bias: Switch = ATTENTION_BIAS
    qk_norm: Literal["head", "width", "each_head"] | None = None
    """An RMSNorm of queries and keys, over a head or over all of them; or a LayerNorm for each."""
    qk_norm_key: ConfigSwitch | None = None
    """The switch of `qk_norm`, where there is one."""
    gate: Literal["feature", "head"] | None = None
    """A projection beside the query's that scales the output."""
    sinks: bool = False
    windows: Windows | None = None
    rope: Literal["everywhere", "in_windows", "in_windows_if_any"] = "everywhere"
    """Where positions are rotary: with "if any" everywhere in a model that has no window."""
    mlp: Literal["gated", "plain"] = "gated"
    mlp_bias: Switch = MLP_BIAS
    experts: Moe | None = None
    head_bias: Switch = False
