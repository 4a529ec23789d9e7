"""GPT-Neo: GPT-2's plan, every other layer with a window, no bias on queries, keys and values."""

from collections.abc import Sequence
from functools import cache

from trainfit.architectures.config import Config
from trainfit.architectures.decoder import (
    decoder,
    layer_count,
    layer_norm,
    multi_head_attention,
    pre_norm_layer,
)
from trainfit.architectures.gpt2 import four_times_hidden
from trainfit.specs.architecture import ModelSpec
from trainfit.specs.blocks import Layer, Mlp

_GPT_NEO = {
    "vocab_size": 50257,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 2048,
    "attention_types": [[["global", "local"], 12]],
}


def _attention_types(config: Config, layers: int) -> Sequence[str]:
    """`attention_types`: pairs of a group of types and how often the group is repeated."""
    expanded: list[str] = []
    for pair in config.list("attention_types"):
        match pair:
            case [list() as group, int() as times] if 0 <= times <= layers >= len(group):
                expanded += group * times
            case _:
                raise config.error("attention_types", "must hold pairs of a list and a count")
        if len(expanded) > layers:
            break
    if len(expanded) != layers or not all(each in ("global", "local") for each in expanded):
        raise config.error("attention_types", f"must make {layers} layers, global or local")
    return expanded


def gpt_neo(config: Config) -> ModelSpec:
    config = config.with_defaults(
        _GPT_NEO, num_layers="num_hidden_layers", num_heads="num_attention_heads"
    )
    norm = layer_norm(config.int("hidden_size"))
    mlp = Mlp(ffn=four_times_hidden(config, "intermediate_size"), gated=False, bias=True)
    window = config.int("window_size", 256)

    @cache
    def layer(attention_type: str) -> Layer:
        attention = multi_head_attention(
            config,
            out_bias=True,
            window=window if attention_type == "local" else None,
            rope=False,
        )
        return pre_norm_layer(norm, attention, mlp)

    return decoder(
        config,
        [layer(each) for each in _attention_types(config, layer_count(config))],
        tied=True,
        final_norm=norm,
        position_rows=config.int("max_position_embeddings"),
    )


PARSERS = {"gpt_neo": gpt_neo}
