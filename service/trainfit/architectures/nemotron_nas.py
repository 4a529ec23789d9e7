"""Llama Nemotron Super and Ultra: Llama's layers, each with its own share of attention and widths.

Source: modeling_decilm.py beside the checkpoints (DeciLMDecoderLayer).
"""

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    gated_mlp,
    layer_count,
    multi_head_attention,
    pre_norm_layer,
    rms,
)
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Attention, Block, Mlp

_LLAMA_70B = {
    "vocab_size": 128256,
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}
WHOLE = 256
"""Widths of feed-forward networks are rounded up to multiples of it."""


def nemotron_nas(config: Config) -> ModelSpec:
    """`block_configs` has an entry a layer. What is no operation has no norm either."""
    config = config.with_defaults(_LLAMA_70B)
    norm, total = rms(config.int("hidden_size")), layer_count(config)
    entries = config.sections("block_configs")
    if len(entries) != total:
        raise config.error("block_configs", f"must have an entry for each of the {total} layers")
    layers = []
    for entry in entries:
        found: tuple[Block | None, ...] = (
            _attention(config, entry.section("attention")),
            _mlp(config, entry.section("ffn")),
        )
        blocks = [block for block in found if block is not None]
        if not blocks:
            raise entry.error("ffn", "must be there where attention is not")
        layers.append(pre_norm_layer(norm, *blocks))
    return decoder(config, layers, tied=False, final_norm=norm)


def _is_there(entry: Config) -> bool:
    """Whether a part is a whole one, and not left out."""
    if entry.bool("replace_with_linear", False):
        raise entry.error("replace_with_linear", "is not modelled")
    return not entry.bool("no_op", False)


def _attention(config: Config, entry: Config) -> Attention | None:
    if not _is_there(entry):
        return None
    for key in ("num_sink_tokens", "unshifted_sink"):
        if entry.get(key):
            raise entry.error(key, "is not modelled")
    heads, each = config.int("num_attention_heads"), entry.int("n_heads_in_group")
    if each < 1 or heads % each:
        raise entry.error("n_heads_in_group", f"must divide the {heads} heads")
    bias = config.bool("attention_bias", False)
    return multi_head_attention(
        config,
        groups=heads // each,
        qkv_bias=bias,
        out_bias=bias,
        window=entry.optional_int("window_length"),
    )


def _mlp(config: Config, entry: Config) -> Mlp | None:
    if not _is_there(entry):
        return None
    width = int(2 * entry.float("ffn_mult") * config.int("hidden_size") / 3)
    widened = config.with_derived(intermediate_size=-(-width // WHOLE) * WHOLE)
    return gated_mlp(widened, bias=config.bool("mlp_bias", False))


PARSERS = {"nemotron-nas": nemotron_nas}
